"""Problems, TFRecord files, and the input pipeline; corpora, and generating data from them."""
