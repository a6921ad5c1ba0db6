"""Exports to TensorFlow, Keras and CTranslate2, and a client for exported models."""
