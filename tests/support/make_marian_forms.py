r"""Trains small Marian Transformers of all forms that `t2t-import` reads; records their outputs.

Marian itself trains and runs them: `pip install pymarian` (Python 3.11; an environment of its own).
The text is that of `translate_ende_locale`, so that no other licence applies. From the repository:

    PYTHONPATH=tests python -m support.make_marian_forms --marian=MARIAN/bin/pymarian \
        --output_dir=forms [--forms=pre_norm,tied_target]

Each form becomes a folder as it would be published: model.npz, decoder.yml and the vocabularies,
with recorded.json: sentences, and what Marian prints for them. Those of tests/fixtures/marian_forms
were made so.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Sequence

import numpy as np
import sentencepiece

from t2t_lite.problems.locale import corpus

SENTENCES = 60  # recorded
LONGEST = 50  # letters of a source: so small a model learns little from longer ones


@dataclasses.dataclass(frozen=True)
class Form:
    """A form of Marian's Transformer.

    Attributes:
        options: what distinguishes it, as Marian's options.
        vocabulary: "yml": one vocab.yml over source.spm and target.spm, as in OPUS-MT; "spm": one
            vocab.spm that Marian reads itself; "two": two of these; "two_yml": two .yml.
        dim: features of the model, and an eighth of a thousand updates for each of its 4 heads.
        float16: whether the weights are saved in half precision.
    """

    options: str
    vocabulary: str = "yml"
    dim: int = 32
    float16: bool = False


_POST = "--transformer-postprocess dan"
_PRE = "--transformer-preprocess n --transformer-postprocess da"
_TOP = f"{_PRE} --transformer-postprocess-top n"
FORMS = {
    "pre_norm_top": Form(
        f"{_TOP} --transformer-ffn-activation gelu --tied-embeddings-all --enc-depth 2 "
        "--dec-depth 1",
        "spm",
    ),
    "pre_norm": Form(
        f"{_PRE} --transformer-ffn-activation relu --enc-depth 1 --dec-depth 2",
        "two",
    ),
    "tied_target": Form(
        f"{_POST} --transformer-ffn-activation relu --tied-embeddings --enc-depth 3 --dec-depth 1",
        "two_yml",
    ),
    "tied_source": Form(
        f"{_POST} --transformer-ffn-activation swish --tied-embeddings-src --output-omit-bias "
        "--enc-depth 1 --dec-depth 1",
    ),
    "half_precision": Form(
        f"{_POST} --transformer-ffn-activation gelu --tied-embeddings-all --enc-depth 2 "
        "--dec-depth 2",
        "spm",
        dim=48,
        float16=True,
    ),
    "sandwich": Form(
        "--transformer-preprocess n --transformer-postprocess dan --tied-embeddings-all "
        "--enc-depth 1 --dec-depth 1 --transformer-decoder-dim-ffn 96",
    ),
    "norm_before_add": Form(
        "--transformer-postprocess dna --transformer-postprocess-top n --tied-embeddings-all "
        "--transformer-ffn-activation gelu --enc-depth 1 --dec-depth 1",
    ),
    "no_bias": Form(
        f"{_TOP} --transformer-no-bias --tied-embeddings-all --enc-depth 2 --dec-depth 2",
        "spm",
        dim=64,
    ),
    "learned_positions": Form(
        f"{_POST} --transformer-train-position-embeddings --max-length 100 "
        "--tied-embeddings-all --enc-depth 1 --dec-depth 1",
    ),
    "guided_alignment": Form(
        f"{_POST} --guided-alignment {{alignment}} --tied-embeddings-all --enc-depth 2 "
        "--dec-depth 2",
        dim=64,
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Makes the forms that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--marian", required=True, help="the command pymarian")
    parser.add_argument("--output_dir", required=True, type=pathlib.Path)
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--updates", default=2000, type=int)
    options = parser.parse_args(arguments)
    for name in options.forms.split(","):
        folder = options.output_dir / name
        folder.mkdir(parents=True)
        _Maker(FORMS[name], options.marian, folder).make(options.updates)


class _Maker:
    """Makes one form.

    Args:
        form: what to make.
        marian: the command pymarian.
        folder: where to.
    """

    def __init__(self, form: Form, marian: str, folder: pathlib.Path) -> None:
        self._form = form
        self._marian = marian
        self._folder = folder
        self._pieces = form.vocabulary.endswith("yml")  # whether Marian reads pieces, not text

    def make(self, updates: int) -> None:
        """Trains it and records its outputs."""
        training, test = (
            [pair for pair in corpus("de")[split] if len(pair[0]) < LONGEST]
            for split in ("train", "test")
        )
        self._make_vocabularies(training)
        with tempfile.TemporaryDirectory() as scratch:
            self._train(training, updates, pathlib.Path(scratch))
        self._record(test[:SENTENCES])

    def _make_vocabularies(self, pairs: Sequence[tuple[str, str]]) -> None:
        sides = list(zip(*pairs, strict=True))
        joint = [*sides[0], *sides[1]]
        if self._form.vocabulary == "spm":
            self._train_pieces("vocab", joint)
            self._spm = [self._folder / "vocab.spm"] * 2
        else:
            names = ("source", "target")
            for name, lines in zip(names, sides, strict=True):
                self._train_pieces(name, lines)
            self._spm = [self._folder / f"{name}.spm" for name in names]
        self._encoders = [sentencepiece.SentencePieceProcessor(str(path)) for path in self._spm]
        self._vocabularies = [path.name for path in self._spm]
        if self._pieces:
            found = [
                sorted({piece for line in lines for piece in encoder.encode(line, out_type=str)})
                for encoder, lines in zip(self._encoders, sides, strict=True)
            ]
            if self._form.vocabulary == "yml":
                self._write_yml("vocab.yml", sorted({*found[0], *found[1]}))
                self._vocabularies = ["vocab.yml"] * 2
            else:
                self._vocabularies = ["source.yml", "target.yml"]
                for name, pieces in zip(self._vocabularies, found, strict=True):
                    self._write_yml(name, pieces)

    def _train_pieces(self, name: str, lines: Sequence[str]) -> None:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines[::3]),
            model_prefix=str(self._folder / name),
            vocab_size=400,
            normalization_rule_name="identity",  # others take 240 kB
            bos_id=-1,
            eos_id=0,
            unk_id=1,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (self._folder / f"{name}.spm").write_bytes((self._folder / f"{name}.model").read_bytes())
        for suffix in ("model", "vocab"):
            (self._folder / f"{name}.{suffix}").unlink()

    def _write_yml(self, name: str, pieces: Sequence[str]) -> None:
        entries = ["</s>", "<unk>", *pieces]
        lines = (f"{json.dumps(piece, ensure_ascii=False)}: {i}" for i, piece in enumerate(entries))
        (self._folder / name).write_text("\n".join([*lines, ""]))

    def _train(self, pairs: Sequence[tuple[str, str]], updates: int, scratch: pathlib.Path) -> None:
        for side, name in enumerate(("source", "target")):
            (scratch / name).write_text(self._lines(side, [pair[side] for pair in pairs]))
        if "{alignment}" in self._form.options:  # the first words of both, as good as any
            (scratch / "alignment").write_text("0-0\n" * len(pairs))
        form = self._form
        self._run(
            f"train --type transformer --model {scratch}/model.npz --train-sets {scratch}/source "
            f"{scratch}/target --vocabs {self._vocabulary_paths()} --dim-emb {form.dim} "
            f"--transformer-dim-ffn {3 * form.dim} --transformer-heads 4 "
            f"{form.options.format(alignment=scratch / 'alignment')} --mini-batch 48 --seed 1 "
            f"--after {updates}u --learn-rate 0.004 --lr-warmup 200 --lr-decay-inv-sqrt 400 "
            "--optimizer-params 0.9 0.98 1e-09 --clip-norm 0 --label-smoothing 0.05 "
            f"--cost-type ce-mean-words --disp-freq {updates // 4} --save-freq {updates} "
            "--overwrite --exponential-smoothing 1e-3 --workspace 512"
        )
        with np.load(scratch / "model.npz") as file:
            arrays = {
                name: array.astype(np.float16)
                if form.float16 and array.dtype == np.float32
                else array
                for name, array in file.items()
            }
        np.savez(self._folder / "model.npz", **arrays)  # Marian reads no compressed ones
        (self._folder / "decoder.yml").write_text(
            "relative-paths: true\nmodels:\n  - model.npz\nvocabs:\n"
            + "".join(f"  - {name}\n" for name in self._vocabularies)
            + "beam-size: 6\nnormalize: 1\nword-penalty: 0\nmini-batch: 1\nmaxi-batch: 1\n"
            "maxi-batch-sort: src\n"
        )

    def _record(self, pairs: Sequence[tuple[str, str]]) -> None:
        sources, targets = ([pair[side] for pair in pairs] for side in range(2))
        recorded = {
            "sources": sources,
            "targets": targets,
            "word_scores": self.score(sources, targets),
        }
        # In pre-norm models, Marian 1.12 decodes with other keys and values than it trains and
        # scores with: it normalizes them, after the first step, no more.
        if "--transformer-preprocess" not in self._form.options:
            recorded |= {
                "greedy": self.translate(sources, "--beam-size 1 --normalize 0"),
                "beam6": self.translate(sources, "--beam-size 6 --normalize 1"),
                "n_best": _n_best(
                    self.translate(sources[:20], "--beam-size 6 --normalize 1 --n-best")
                ),
            }
        lines = json.dumps(recorded, ensure_ascii=False, indent=0)
        (self._folder / "recorded.json").write_text(lines + "\n")

    def translate(self, sources: Sequence[str], options: str) -> list[str]:
        """Returns what Marian prints for the sources, as pieces."""
        return self._run(
            f"decode --models {self._folder}/model.npz --vocabs {self._vocabulary_paths()} "
            f"--no-spm-decode {options} --mini-batch 1 --maxi-batch 1 --workspace 256",
            self._lines(0, sources),
        )

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
        """Returns the log-probabilities of the targets' pieces, EOS included."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            for side, lines in enumerate((sources, targets)):
                (folder / str(side)).write_text(self._lines(side, lines))
            printed = self._run(
                f"score --model {self._folder}/model.npz --train-sets {scratch}/0 {scratch}/1 "
                f"--vocabs {self._vocabulary_paths()} --word-scores --mini-batch 1 --maxi-batch 1 "
                "--workspace 256"
            )
        return [
            [float(score) for score in line.partition("WordScores=")[2].split()] for line in printed
        ]

    def _lines(self, side: int, lines: Sequence[str]) -> str:
        if self._pieces:
            lines = [" ".join(self._encoders[side].encode(line, out_type=str)) for line in lines]
        return "".join(f"{line}\n" for line in lines)

    def _vocabulary_paths(self) -> str:
        return " ".join(str(self._folder / name) for name in self._vocabularies)

    def _run(self, options: str, text: str | None = None) -> list[str]:
        """Runs Marian; returns the lines that it prints."""
        command = [self._marian, *options.split(), "--cpu-threads", "1", "--quiet-translation"]
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout.splitlines()


def _n_best(lines: Sequence[str]) -> list[list[list[str | float]]]:
    """Returns text, log-probability and score of each hypothesis of each sentence."""
    found: dict[int, list[list[str | float]]] = {}
    for line in lines:
        number, text, total, score = (field.strip() for field in line.split("|||"))
        total = re.fullmatch(r"F0= (\S+)", total)[1]
        found.setdefault(int(number), []).append([text, float(total), float(score)])
    return [found[number] for number in sorted(found)]


if __name__ == "__main__":
    main()
