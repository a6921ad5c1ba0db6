"""Tags and placeholders that survive translation; needs no TensorFlow."""
