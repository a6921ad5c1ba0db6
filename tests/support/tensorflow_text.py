"""tensorflow_text is not everywhere that TensorFlow is: what needs it, and is left out there."""

import importlib.util

import pytest

IS_INSTALLED = importlib.util.find_spec("tensorflow_text") is not None

needs_tensorflow_text = pytest.mark.skipif(not IS_INSTALLED, reason="needs tensorflow-text")
