"""T2T's modalities: all their names; only symbols, which mean a vocabulary, and labels are read."""

from typing import Any

from t2t_lite.interop.t2t.names import TABLES, constants

__all__ = ["ModalityType"]


ModalityType = constants(
    "ModalityType",
    "modality_types",
    "How features enter and leave a model, by T2T's names: all of T2T 1.15.",
)
ModalityType.get_choices = staticmethod(lambda: sorted(TABLES["modality_types"].values()))
Modalities = constants(
    "Modalities",
    "modalities_before_1_10",
    "The names of T2T before 1.10, for `p.input_modality` and `p.target_modality`.",
)


class Modality:
    """A modality of T2T before 1.12, where they were classes.

    Args:
        model_hparams: not used.
        vocab_size: number of ids.
    """

    type = ""  # the name in `ModalityType`

    def __init__(self, model_hparams: Any = None, vocab_size: Any = None) -> None:
        del model_hparams
        self.vocab_size = vocab_size


# Names of classes that are not made of the words of their modality's name and "Modality".
_IRREGULAR = {
    "ctc_symbol": "CTCSymbolModality",
    "image_channel_embeddings_bottom": "ImageChannelEmbeddingsBottom",
    "generic_l2": "GenericL2LossModality",
    "real_l2": "RealL2LossModality",
    "real_log_poisson": "RealLogPoissonLossModality",
}
_FIRST = ("symbol_", "video_")  # T2T: SymbolModalityWeightsAll, VideoModalityL1


def _class_name(name: str) -> str:
    words = "".join(word.capitalize() for word in name.split("_"))
    for first in _FIRST:
        if name.startswith(first):
            kind = first[:-1].capitalize()
            return f"{kind}Modality{words.removeprefix(kind)}"
    return _IRREGULAR.get(name, f"{words}Modality")


_CLASSES = {
    _class_name(name): type(_class_name(name), (Modality,), {"type": name, "__module__": __name__})
    for name in ModalityType.get_choices()
}
globals().update(_CLASSES)


def declared(found: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the modalities and the vocabulary sizes that a problem's `hparams` declares.

    A modality may be a name, a class or an object, and before T2T 1.10 a name and a size, for
    `input_modality` by feature and for `target_modality` alone.

    Args:
        found: what `hparams` has changed.

    Returns:
        Both by feature; a modality is a name in `ModalityType`, or what it is if it has none.
    """
    given = dict(found.modality)
    given |= found.get("input_modality") or {}
    targets = found.get("target_modality")
    given |= targets if isinstance(targets, dict) else {"targets": targets} if targets else {}
    modalities: dict[str, Any] = {}
    sizes = {}
    for side, modality in given.items():
        size = getattr(modality, "vocab_size", None)
        if isinstance(modality, tuple):
            modality, size = modality
        modalities[side] = _named(modality)
        sizes[side] = size
    return modalities, sizes | {side: size for side, size in found.vocab_size.items() if size}


def _named(modality: Any) -> Any:
    kind = modality if isinstance(modality, type) else type(modality)
    if kind in _CLASSES.values():
        return kind.type  # type: ignore[attr-defined]
    if isinstance(modality, str):  # T2T 1.2 to 1.9: symbol:default
        return modality.removesuffix(":default")
    return kind.__name__ if issubclass(kind, Modality) else modality
