"""T2T's modalities: only symbols, which mean a vocabulary, are available."""

__all__ = ["ModalityType"]


class ModalityType:
    """How features enter and leave a model, by T2T's names."""

    CLASS_LABEL = "class_label"
    IDENTITY = "identity"
    REAL_L2_LOSS = "real_l2"
    SYMBOL = "symbol"
    SYMBOL_WEIGHTS_ALL = "symbol_weights_all"
