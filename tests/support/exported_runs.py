"""Random Transformers to be exported: their weights are noise. Nothing here traces a model."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from support.lines import ODD_LINES
from t2t_lite import registry
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.interop.imports import hugging_face, marian
from t2t_lite.interop.imports.open_model import OpenModel
from t2t_lite.interop.imports.weights import assign
from t2t_lite.interop.layouts.marian import TIES
from t2t_lite.models.transformer import Transformer
from t2t_lite.runs.run_folder import LoadedModel
from t2t_lite.runs.run_settings import RunSettings
from t2t_lite.text import vocabularies
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.text_encoder import TextEncoder, VocabType

_TEXT = pathlib.Path(__file__).parents[1] / "fixtures" / "marian" / "test.en"

LONGEST = 16  # ids, so that all calls have one shape

BPE, UNIGRAM = VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM


@dataclasses.dataclass
class Made:
    """What exports need of a run folder, and the model."""

    folder: pathlib.Path
    model: Transformer
    encoders: dict[str, TextEncoder]
    decode_hparams: str = ""
    problem: Any = dataclasses.field(default_factory=lambda: registry.problem("text2text_tmpdir"))
    model_name: str = "transformer"
    hparams_set: str = "noise"
    settings: RunSettings = dataclasses.field(
        default_factory=lambda: RunSettings(
            problem="text2text_tmpdir", model="transformer", hparams_set="noise"
        )
    )

    @property
    def hparams(self) -> TransformerHParams:
        """The hyperparameters of the model."""
        return self.model.hparams

    def load_model(self, checkpoint: str | None = None, dtype: str = "") -> LoadedModel:
        """Returns the model, its step, and the name of a checkpoint."""
        return LoadedModel(self.model, 7, "model.ckpt-7")


def sentences() -> list[str]:
    """Returns 500 English sentences, and lines in which tokenizers may differ."""
    odd = (line for line in ODD_LINES if not {"\n", "</s>", "<unk>"} & {line, line[:4], line[:5]})
    return [*_TEXT.read_text(encoding="utf-8").splitlines(), *odd]


def random_hparams(seed: int, **fixed: Any) -> dict[str, Any]:
    """Returns sizes, activation, ties and steps of a random Transformer.

    Args:
        seed: of the choice.
        **fixed: those that are not chosen.
    """
    random = np.random.default_rng(seed)
    heads = int(random.choice([1, 2, 4]))
    tied = random.choice(["", *TIES.values()])
    return {
        "num_encoder_layers": int(random.integers(1, 4)),
        "num_decoder_layers": int(random.integers(1, 4)),
        "hidden_size": heads * int(random.choice([8, 12, 16])),
        "filter_size": int(random.integers(5, 40)),
        "num_heads": heads,
        "ffn_activation": str(random.choice(["relu", "swish", "gelu"])),
        "attention_bias": bool(random.integers(2)),
        "softmax_bias": bool(random.integers(2)),
        **{name: name == tied for name in TIES.values()},
        **fixed,
    }


def made_run(
    folder: pathlib.Path, vocab_type: str = BPE, seed: int = 0, size: int = 400, **hparams: Any
) -> Made:
    """Makes a model of noise with a vocabulary of `sentences`.

    Args:
        folder: of the vocabulary.
        vocab_type: BPE or UNIGRAM.
        seed: of the noise.
        size: of the vocabulary.
        **hparams: those of transformer_base_v1 to change.
    """
    path = folder / "vocab.model"
    vocabularies.build(vocab_type, path, sentences(), size)
    encoder = SentencePieceEncoder(path)
    model = Transformer("transformer_base_v1", *[encoder.vocab_size] * 2, **hparams)
    return Made(folder, with_noise(model, seed), {"inputs": encoder, "targets": encoder})


def with_noise(model: Transformer, seed: int) -> Transformer:
    """Returns the model, whose weights are noise now."""
    random = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        noise = random.normal(size=variable.shape, scale=variable.shape[0] ** -0.5)
        variable.assign(noise + (variable.name == "gamma"))
    return model


def read(folder: pathlib.Path, to: pathlib.Path) -> Made:
    """Reads a model in another toolkit's form; its vocabularies are written into a new folder."""
    is_hugging_face = hugging_face.is_hugging_face(folder)
    found: OpenModel = (hugging_face if is_hugging_face else marian).read(folder)
    model = Transformer(found.hparams, len(found.source.pieces), len(found.target.pieces))
    assign(model, found.parts, found.tensors, found.path)
    to.mkdir(parents=True)
    encoders = {}
    for side, vocabulary in (("inputs", found.source), ("targets", found.target)):
        vocabulary.write(to / f"{side}.json")
        encoders[side] = ImportedEncoder(to / f"{side}.json")
    return Made(to, model, encoders, found.decode_hparams)


def random_pairs(run: Made, count: int, seed: int = 1) -> list[tuple[list[int], list[int]]]:
    """Returns sources and targets of random ids, which end with EOS."""
    random = np.random.default_rng(seed)
    return [
        tuple(
            [*map(int, random.integers(3, run.encoders[side].vocab_size, random.integers(1, 9))), 1]
            for side in ("inputs", "targets")
        )
        for _ in range(count)
    ]


def logits(run: Made, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[np.ndarray]:
    """Returns those of a model of ours for each pair of a source and a target, [T, V]."""
    padded = (
        np.array([[*ids, *[0] * (LONGEST - len(ids))] for ids in side])
        for side in zip(*pairs, strict=True)
    )
    found = run.model(dict(zip(("inputs", "targets"), padded, strict=True)))
    return [row[: len(target)] for row, (_, target) in zip(np.asarray(found), pairs, strict=True)]
