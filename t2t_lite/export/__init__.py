"""Models that leave the house, for TensorFlow, Keras and CTranslate2, and T2T's that move in."""
