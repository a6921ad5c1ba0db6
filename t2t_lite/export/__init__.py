"""Exports to TensorFlow, Keras and CTranslate2, and imports from T2T."""
