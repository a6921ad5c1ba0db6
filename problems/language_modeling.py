"""Language models: your own text, and T2T's data sets under T2T's names.

A sample is one line, `{"targets": text}`. Archives are downloaded into `--tmp_dir` if they are not
there, under their upstream names; where a host is gone, put them there by hand.
"""

import pathlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from t2t_lite import registry
from t2t_lite.data.corpora import archives
from t2t_lite.data.corpora.corpora import RemoteFile, existing_files
from t2t_lite.data.problem import DatasetSplit, three_splits
from t2t_lite.data.text_problems import Text2SelfProblem
from t2t_lite.errors import DataError
from t2t_lite.problems.text2text_tmpdir import Text2textTmpdir, Text2textTmpdirBpe
from t2t_lite.text import vocabularies
from t2t_lite.text.sample import Sample
from t2t_lite.text.source_form import has_text
from t2t_lite.text.text_encoder import VocabType
from t2t_lite.text.text_files import iterate_lines


@registry.register_problem
class Text2selfTmpdir(Text2textTmpdir):
    """Your own text: `targets.train.txt` and, if you like, `targets.{eval,test}.txt`.

    One text per line, in the folder `--tmp_dir`, each file perhaps compressed (`.gz`, `.bz2`);
    lines without text are dropped. Without `targets.eval.txt`, the last lines of training are held
    out, as in `text2text_tmpdir`. A subword vocabulary, 100 training files.
    """

    has_inputs = False

    def read(self, paths: Sequence[pathlib.Path]) -> Iterator[Sample]:
        """Yields the lines of a file."""
        (path,) = paths
        lines = self.bad_input.counted(iterate_lines(path, self.bad_input), str(path))
        return _with_text((line for line in lines if self.bad_input.is_usable(line)), str(path))

    def _files(self, tmp_dir: str, split: str) -> list[pathlib.Path]:
        return super()._files(tmp_dir, split)[1:]

    def _contents(self, path: pathlib.Path) -> str:
        return "it should contain the text, one per line"


@registry.register_problem
class Text2selfTmpdirBpe(Text2selfTmpdir, Text2textTmpdirBpe):
    """The same with a SentencePiece BPE vocabulary of 8,000, recommended for new work."""


@registry.register_problem
class PlainTextTmpdir(Text2selfTmpdirBpe):
    """Your own text beside your own pairs, as a member of a mixture: `text.train.txt`.

    One sentence per line, in the folder `--tmp_dir`, the file perhaps compressed (`.gz`, `.bz2`).
    All of it is for training.
    """

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """Training alone."""
        return [e for e in super().dataset_splits if e["split"] == DatasetSplit.TRAIN]

    def split_settings(self, tmp_dir: str) -> dict[str, Any]:
        """Nothing: no lines are held out."""
        return {}

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the lines."""
        return self.read(self.fetch_sources(tmp_dir, dataset_split))

    def _files(self, tmp_dir: str, split: str) -> list[pathlib.Path]:
        return [pathlib.Path(tmp_dir) / f"text.{split}.txt"]


# ---- archives


class _ArchiveProblem(Text2SelfProblem):
    """Lines of an archive's members."""

    archive: ClassVar[RemoteFile]

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the archive, if it is there."""
        return existing_files([self.archive.path(tmp_dir)])

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Downloads the archive if it is missing."""
        return [self.archive.fetch(tmp_dir)]


class _WordProblem(_ArchiveProblem):
    """Text of words separated by white space, one member for each split.

    The vocabulary has the words of the training text, the most frequent first. T2T's list lacks pad
    and EOS, so that its most frequent word has the id of padding; here they come first.
    """

    members_by_split: ClassVar[Mapping[str, str]]
    most_words: ClassVar[int | None] = None  # in the vocabulary; None: all
    dataset_splits = three_splits(10)  # T2T's 10 files for training, and one for each other split
    vocab_type = VocabType.TOKEN  # tokens separated by white space
    oov_token = "<unk>"  # the word that stands for rare ones in these texts

    def vocab_source_files(self, tmp_dir: str) -> Sequence[pathlib.Path]:
        """Returns the archive, if it is there."""
        return self.source_files(tmp_dir, DatasetSplit.TRAIN)

    def build_vocab(self, data_dir: str, tmp_dir: str) -> None:
        """Writes the vocabulary if it is missing: the most frequent words of training."""
        path = pathlib.Path(data_dir) / self.vocab_filename
        if not path.is_file():
            samples = self.generate_samples(data_dir, tmp_dir, DatasetSplit.TRAIN)
            counts = Counter(word for sample in samples for word in sample["targets"].split())
            words = sorted(counts, key=lambda word: (-counts[word], word))[: self.most_words]
            vocabularies.write_tokens(path, [self.oov_token, *words])

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the lines of a split."""
        (path,) = self.fetch_sources(tmp_dir, dataset_split)
        member = self.members_by_split[dataset_split]
        return _with_text(archives.iterate_member_lines(path, member, self.bad_input), member)


@registry.register_problem
class LanguagemodelPtb10k(_WordProblem):
    """The Penn Treebank in Mikolov's form, 10,000 words."""

    licence = "the LDC's user agreement"
    archive = RemoteFile("http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz")
    members_by_split: ClassVar[Mapping[str, str]] = {
        DatasetSplit.TRAIN: "simple-examples/data/ptb.train.txt",
        DatasetSplit.EVAL: "simple-examples/data/ptb.valid.txt",
        DatasetSplit.TEST: "simple-examples/data/ptb.test.txt",
    }
    most_words = 10_000
    vocab_filename = "vocab.lmptb.10000"  # T2T's name


@registry.register_problem
class LanguagemodelWikitext103(_WordProblem):
    """WikiText-103: 103 million words of Wikipedia, 268,000 different ones."""

    licence = "CC-BY-SA-3.0"
    archive = RemoteFile(
        "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-103-v1.zip"
    )
    members_by_split: ClassVar[Mapping[str, str]] = {
        DatasetSplit.TRAIN: "wikitext-103/wiki.train.tokens",
        DatasetSplit.EVAL: "wikitext-103/wiki.valid.tokens",
        DatasetSplit.TEST: "wikitext-103/wiki.test.tokens",
    }


@registry.register_problem
class LanguagemodelLm1b32k(_ArchiveProblem):
    """The One Billion Word benchmark: shuffled sentences of news, 32,000 subwords.

    As in T2T, a word that is not in the published list of 793,471 is `UNK`.
    """

    archive = RemoteFile(
        "http://www.statmt.org/lm-benchmark/"
        "1-billion-word-language-modeling-benchmark-r13output.tar.gz"
    )
    words = RemoteFile("http://download.tensorflow.org/models/LM_LSTM_CNN/vocab-2016-09-10.txt")
    # The ends of the members' names: 99 files for training, the first of 50 for evaluation.
    _SUFFIXES: ClassVar[Mapping[str, str]] = {
        DatasetSplit.TRAIN: "-of-00100",
        DatasetSplit.EVAL: "news.en.heldout-00000-of-00050",
    }

    max_samples_for_vocab = 63_000  # T2T's number

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the archive and the list of words, if they are there."""
        return existing_files([self.archive.path(tmp_dir), self.words.path(tmp_dir)])

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Downloads the archive and the list of words, if they are missing."""
        return [self.archive.fetch(tmp_dir), self.words.fetch(tmp_dir)]

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the sentences of a split, in the order of the archive."""
        archive, words = self.fetch_sources(tmp_dir, dataset_split)
        known = {line.strip() for line in iterate_lines(words)}
        suffix = self._SUFFIXES[dataset_split]
        found = archives.iterate_members(archive, (suffix,), self.bad_input)
        lines = (line for _, member in found for line in member)
        replaced = (
            " ".join(word if word in known else "UNK" for word in line.split()) for line in lines
        )
        return _with_text(replaced, f"{archive}, {suffix}")


def _with_text(lines: Iterable[str], name: str) -> Iterator[Sample]:
    """Strips lines, and yields those with text."""
    found = False
    for line in lines:
        if has_text(line):
            found = True
            yield {"targets": line.strip()}
    if not found:
        raise DataError(f"{name}: no line has text")
