"""Sequence-to-sequence learning on TensorFlow and Keras, in the manner of tensor2tensor."""

from t2t_lite.version import __version__

__all__ = ["__version__"]
