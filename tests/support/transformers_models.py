"""Random models in each layout of transformers, and what transformers computes with them."""

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from support.exported_runs import (
    BPE,
    LONGEST,
    UNIGRAM,
    Made,
    made_run,
    random_hparams,
    random_pairs,
    read,
    with_noise,
)
from t2t_lite.interop.export import hugging_face
from t2t_lite.interop.export.hugging_face_tokenizers import HuggingFaceSide
from t2t_lite.interop.imports import safe_files
from t2t_lite.interop.layouts.hugging_face import IMPOSSIBLE
from t2t_lite.interop.layouts.marian import TIES
from t2t_lite.models.transformer import Transformer
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.languages import speaking
from t2t_lite.text.source_form import has_text, source_form
from t2t_lite.text.text_encoder import EOS_ID, SPACE

_FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures"
PUBLISHED, TOKENIZERS = _FIXTURES / "hugging_face", _FIXTURES / "tokenizers"
POST, PRE = (
    {"layer_preprocess_sequence": before, "layer_postprocess_sequence": after}
    for before, after in (("none", "dan"), ("n", "da"))
)
# Of models that are trained here: T2T's sinusoids, the paper's, and learned positions.
TRAINED = {
    "MarianMT": {**POST, "pos": "timing"},
    "MarianMT, learned positions": {**POST, "pos": "emb", "max_length": 40},
    "Pegasus": {**PRE, "pos": "timing"},
    "Pegasus, the paper's sinusoids": {**PRE, "pos": "timing_paper"},
}
# Of models that come from there, with the languages to speak.
IMPORTED = {
    "MarianMT, imported": "",
    "M2M100": "source_language=en,target_language=de",
    "NLLB-200": "source_language=eng_Latn,target_language=deu_Latn",
}

EPSILON = 1e-5  # of all normalisation there; models that are trained here have 1e-6
TIE = 1e-4
_LIMIT = 12  # ids of an output


def random_model(layout: str, folder: pathlib.Path, seed: int) -> Made:
    """Makes a random model that t2t-exporter writes in a layout of transformers.

    Args:
        layout: one of `TRAINED` and `IMPORTED`.
        folder: of its vocabularies.
        seed: of all that is random.
    """
    if layout in TRAINED:
        size = int(np.random.default_rng(seed).integers(330, 500))
        hparams = random_hparams(seed, **TRAINED[layout])
        return made_run(folder, (BPE, UNIGRAM)[seed % 2], seed, size, **hparams)
    names = {"MarianMT, imported": ("marian_2", "marian_9")[seed % 2], "M2M100": "m2m100_0"}
    published = PUBLISHED / names[layout] if layout in names else folder / "published"
    if layout not in names:
        write_nllb(published, mask_last=bool(seed % 2))
    run = random_imported(published, folder / "vocabularies", seed)
    run.decode_hparams = ",".join(filter(None, (run.decode_hparams, IMPORTED[layout])))
    return run


def random_imported(published: pathlib.Path, to: pathlib.Path, seed: int) -> Made:
    """Reads a model of transformers, and makes another of its kind: sizes and weights are random.

    Args:
        published: its folder.
        to: where its vocabularies are written.
        seed: of the sizes and the weights.
    """
    run = read(published, to)
    sizes = random_hparams(seed)
    kept = ("attention_bias", "softmax_bias")
    if run.model.inputs_embedding is not run.model.targets_embedding:  # two vocabularies
        kept += tuple(TIES.values())
    h = run.hparams.copy(**{name: value for name, value in sizes.items() if name not in kept})
    vocab_sizes = (run.model.inputs_vocab_size, run.model.targets_vocab_size)
    run.model = with_noise(Transformer(h, *vocab_sizes), seed)
    return run


def write_nllb(folder: pathlib.Path, *, mask_last: bool = False) -> pathlib.Path:
    """Writes a model of NLLB-200's layout, and returns its folder.

    Its weights are those of the fixture of M2M100, with more rows of noise.

    Args:
        folder: a new one.
        mask_last: whether `<mask>` follows the languages, as published, or comes before them, as
            transformers 5 makes it.
    """
    from safetensors.numpy import save_file

    shutil.copytree(TOKENIZERS / "nllb", folder)
    if mask_last:
        path = folder / "tokenizer.json"
        contents = json.loads(path.read_text("utf-8"))
        *_, mask = others = contents["added_tokens"][:5]
        assert mask["content"] == "<mask>"
        languages = contents["added_tokens"][len(others) :]
        for token in languages:
            token["id"] -= 1
        mask["id"] += len(languages)
        path.write_text(json.dumps(contents))
    size = json.loads((TOKENIZERS / "recorded.json").read_text("utf-8"))["nllb"]["size"]
    other = PUBLISHED / "m2m100_0"
    for name, changes in (("config.json", {"vocab_size": size}), ("generation_config.json", {})):
        settings = json.loads((other / name).read_text()) | changes
        (folder / name).write_text(json.dumps(settings))
    arrays = {
        name: tensor.read().astype(np.float32)
        for path in other.glob("*.safetensors")
        for name, tensor in safe_files.read_safetensors(path).items()
    }
    width = arrays["model.shared.weight"].shape[1]
    rows = np.random.default_rng(0).normal(size=(size, width)).astype(np.float32)
    rows[1] = 0  # padding's
    save_file(arrays | {"model.shared.weight": rows}, folder / "model.safetensors")
    return folder


class Compared(NamedTuple):
    """How far transformers agrees with t2t_lite.

    Attributes:
        logits: the largest difference.
        equal: greedy outputs each of whose ids is the likeliest here.
        ties: others whose ids are as likely, but for `TIE`.
        outputs: all greedy outputs.
        ids: lines whose ids are the same.
        texts: lines that are decoded to the same.
        lines: all lines with text.
    """

    logits: float
    equal: int
    ties: int
    outputs: int
    ids: int
    texts: int
    lines: int


class Exported:
    """A model of ours, and its export for transformers.

    Args:
        run: the model.
        folder: for the export.
        epsilon: of the normalisation with which the model is compared; None: its own.
    """

    def __init__(self, run: Made, folder: pathlib.Path, epsilon: float | None = None) -> None:
        self._search = DecodeHParams.of(run)
        hugging_face.export(run, None, str(folder), self._search)
        self.folder = folder / "huggingface" / "1"
        self._run = run
        self._model = run.model if epsilon is None else _with_epsilon(run.model, epsilon)
        self._encoders = speaking(run.encoders, self._search.languages)
        kind = json.loads((self.folder / "config.json").read_text())["model_type"]
        self._is_marian = kind == "marian"
        sides = (HuggingFaceSide.of(encoder, kind) for encoder in self._encoders.values())
        self._theirs = [np.argsort(side.ids) for side in sides]  # by ours

    def questions(self, lines: Sequence[str], pairs: int) -> dict[str, Any]:
        """Returns what to ask transformers: to encode lines, and to read and translate pairs."""
        self._lines = [source_form(line) for line in lines if has_text(line)]
        self._pairs = random_pairs(self._run, pairs)
        asked = [
            [theirs[ids].tolist() for theirs, ids in zip(self._theirs, pair, strict=True)]
            for pair in self._pairs
        ]
        return {"lines": self._lines, "pairs": asked, "limit": _LIMIT, "greedy": pairs}

    def compared(self, answers: dict[str, Any], logits: np.ndarray) -> Compared:
        """Compares the answers with what the model computes."""
        source, target = (
            {theirs: ours for ours, theirs in enumerate(side)} for side in self._theirs
        )
        sources, targets = zip(*self._pairs, strict=True)
        expected, found = self._logits(sources, targets), logits[..., self._theirs[1]]
        worst = 0.0
        for number, ids in enumerate(targets):
            own, other = expected[number, : len(ids)], found[number, : len(ids)]
            worst = max(worst, np.abs(own - other)[own > IMPOSSIBLE].max())
        outputs = [[target[id_] for id_ in row] for row in answers["greedy"]]
        # Ours reads a zero vector after padding.
        outputs = [row[: row.index(0) + 1] if 0 in row else row for row in outputs]
        losses = [*map(self._loss, self._logits(sources, outputs), outputs)]
        encoder = self._encoders["inputs"]
        ids = [encoder.encode(line) for line in self._lines]
        texts = [encoder.decode(row) for row in ids]
        if self._is_marian:  # whose tokenizer strips, and takes any \u2581 for a space
            texts = [text.replace(SPACE, " ").strip() for text in texts]
        others = answers["texts"]
        if encoder.languages:  # transformers leaves the space after what is unknown
            others = [text.strip() for text in others]
        theirs = [[source.get(id_, -1) for id_ in row] for row in answers["ids"]]
        return Compared(
            float(worst),
            losses.count(0),
            sum(0 < loss < TIE for loss in losses),
            len(losses),
            sum([*own, EOS_ID] == other for own, other in zip(ids, theirs, strict=True)),
            sum(own == other for own, other in zip(texts, others, strict=True)),
            len(ids),
        )

    def _logits(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Any:
        """Returns our logits [N, T, V]."""
        features = {
            name: np.array([[*row, *[0] * (LONGEST - len(row))] for row in rows])
            for name, rows in (("inputs", sources), ("targets", targets))
        }
        return np.asarray(self._model(features))

    def _loss(self, logits: np.ndarray, ids: Sequence[int]) -> float:
        """Returns the most by which an id of an output is less likely than the likeliest.

        An id that the search prescribes is none of them.
        """
        logits = logits[: len(ids)].copy()
        logits[:, [*self._run.hparams.never_output]] = -np.inf
        losses = logits.max(axis=1) - logits[np.arange(len(ids)), ids]
        first = 1 if self._encoders["targets"].languages else 0
        last = _LIMIT - 1 if self._search.end_at_limit else _LIMIT
        return float(losses[first:last].max(initial=0))


def _with_epsilon(model: Transformer, epsilon: float) -> Transformer:
    """Returns a model with the same weights."""
    hparams = model.hparams.copy(norm_epsilon=epsilon)
    other = Transformer(hparams, model.inputs_vocab_size, model.targets_vocab_size)
    other.set_weights(model.get_weights())
    return other


def ask_transformers(
    python: str, questions: Mapping[pathlib.Path, dict[str, Any]]
) -> list[tuple[dict[str, Any], np.ndarray]]:
    """Returns what transformers answers, and the logits; see `support/ask_transformers.py`.

    Args:
        python: a Python that has torch and transformers.
        questions: by the folder of an exported model.
    """
    files = [folder.with_name(f"{folder.name}.json") for folder in questions]
    for path, (folder, asked) in zip(files, questions.items(), strict=True):
        path.write_text(json.dumps({"folder": str(folder)} | asked), encoding="utf-8")
    script = pathlib.Path(__file__).with_name("ask_transformers.py")
    environment = {"PATH": os.environ["PATH"], "HF_HUB_OFFLINE": "1"}
    subprocess.run([python, script, *files], check=True, env=environment)
    return [
        (
            json.loads(path.with_suffix(".answers.json").read_text(encoding="utf-8")),
            np.load(path.with_suffix(".logits.npy")),
        )
        for path in files
    ]
