"""Problems, TFRecord files, and the input pipeline."""
