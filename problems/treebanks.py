"""Parsing problems by treebank: the Wall Street Journal, NLTK's sample, CRAFT, your own."""

import fnmatch
import logging
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from t2t_lite import registry
from t2t_lite.data.corpora import corpora
from t2t_lite.data.corpora.archives import iterate_members
from t2t_lite.data.problem import DatasetSplit, three_splits
from t2t_lite.errors import UserError
from t2t_lite.problems.parsing import TreebankProblem, require_trees
from t2t_lite.text import linear_trees, trees
from t2t_lite.text.text_files import iterate_lines
from t2t_lite.text.trees import Tree

log = logging.getLogger(__name__)

# Names of the Wall Street Journal's files: section and number, two digits each.
_WSJ_FILE = re.compile(r"wsj_(\d{4})\.mrg$")

# Files of the 17 M sentences: trees, one per line, or words and, separately, their trees' symbols.
_EXTRA_FILE = re.compile(r"(extra.*)\.(trees|text|tags)(\.gz|\.bz2)?")

# NLTK's sample of the Wall Street Journal as one archive.
_SAMPLE = "treebank-combined-wsj_0001-0159.tgz"

# The name of a file in messages, and its lines.
TreeFile = tuple[str, Iterator[str]]


class WsjTreebankProblem(TreebankProblem):
    """The Wall Street Journal's `wsj_NNNN.mrg` files, in any folder below `--tmp_dir`."""

    # The numbers NNNN of each split's files.
    file_numbers: ClassVar[Mapping[str, range]]
    # The files to put into --tmp_dir, for messages.
    origin: ClassVar[str] = "the Penn Treebank's folder combined/ (parsed/mrg/ in Treebank-3)"
    dataset_splits = three_splits(10)  # training, development and test

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the files of the split."""
        numbers = self.file_numbers[dataset_split]
        return [
            path
            for path in _wsj_files(tmp_dir)
            if (match := _WSJ_FILE.search(path.name)) and int(match[1]) in numbers
        ]

    def tree_files(self, tmp_dir: str) -> Iterator[TreeFile]:
        """Yields the files of all splits, in order, possibly among others."""
        for path in _wsj_files(tmp_dir):
            yield str(path), iterate_lines(path, self.bad_input)

    def trees(self, tmp_dir: str, dataset_split: str) -> Iterator[Tree]:
        """Yields the normalised trees of a split.

        Raises:
            UserError: files of the treebank are missing, or there twice.
        """
        wanted = self.file_numbers[dataset_split]
        found: dict[int, str] = {}
        for name, lines in self.tree_files(tmp_dir):
            match = _WSJ_FILE.search(name)
            if match and (number := int(match[1])) in wanted:
                if number in found:
                    raise UserError(f"{found[number]} and {name}: the same file twice; remove one")
                found[number] = name
                yield from trees.trees_of_lines(lines, name, self.bad_input, self.learned)
        log.info("%s %s: %d files of trees", self.base_name, dataset_split, len(found))
        missing = {number // 100 for number in wanted} - {number // 100 for number in found}
        if missing:
            sections = ", ".join(f"wsj_{section:02d}NN.mrg" for section in sorted(missing))
            raise UserError(
                f"{tmp_dir}: no files {sections} there or below; put {self.origin} there"
            )


@registry.register_problem("parsing_wsj_16k")
class ParsingWsj16k(WsjTreebankProblem):
    """The Wall Street Journal of the Penn Treebank as in section 6.3 of arXiv:1706.03762.

    Sections 02-21 are for training (about 40,000 sentences), 22 for evaluation, 23 for testing. Put
    the LDC's folder `combined` (Treebank-2) or `parsed/mrg` (Treebank-3) into `--tmp_dir`. The
    paper only says "a vocabulary of 16K tokens"; here it is that of the words, and the symbols have
    a separate one. Source: Marcus et al. 1993, LDC95T7 or LDC99T42.
    """

    licence = "the LDC's user agreement"
    file_numbers: ClassVar[Mapping[str, range]] = {
        DatasetSplit.TRAIN: range(200, 2200),
        DatasetSplit.EVAL: range(2200, 2300),
        DatasetSplit.TEST: range(2300, 2400),
    }

    approx_vocab_size = 2**14  # the paper's 16K


@registry.register_problem("parsing_wsj_semi_32k")
class ParsingWsjSemi32k(ParsingWsj16k):
    """`ParsingWsj16k` with about 17 M sentences of parser output added for training, 32K words.

    The paper uses the "high-confidence and BerkeleyParser corpora" of Vinyals et al. 2015
    (arXiv:1412.7449), which are not public. Put your own beside the Wall Street Journal into
    `--tmp_dir`, in any number of files, plain, `.gz` or `.bz2`: `extra*.trees` with one tree per
    line, or `extra*.text` with one sentence per line and `extra*.tags` with the symbols of its
    tree, as `wsj_parsing` writes them. These trees are normalised, too.

    The words' vocabulary is built from every n-th training sentence, n the least power of 2 that
    leaves at most `vocab_characters` of words and symbols.
    """

    vocab_characters: ClassVar[int] = 100_000_000
    approx_vocab_size = 2**15  # the paper's 32K

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the words of the sample described above."""
        training = self.kept_samples(data_dir, tmp_dir)
        for sample in corpora.spread_sample(training, self.vocab_characters):
            yield sample["inputs"]

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the sections and, for training, the extra files."""
        sections = super().source_files(tmp_dir, dataset_split)
        if dataset_split != DatasetSplit.TRAIN:
            return sections
        extra = (path for parts in self._extra_files(tmp_dir) for path in parts)
        return [*sections, *corpora.existing_files(extra)]

    def trees(self, tmp_dir: str, dataset_split: str) -> Iterator[Tree]:
        """Yields the trees of the sections, then, for training, the extra ones.

        Raises:
            UserError: files are missing.
        """
        if dataset_split != DatasetSplit.TRAIN:
            yield from super().trees(tmp_dir, dataset_split)
            return
        remedy = ".text and .tags belong together, line by line"
        extra = [
            [corpora.require_file(path, remedy) for path in parts]
            for parts in self._extra_files(tmp_dir)
        ]
        if not extra:
            raise UserError(
                f"{tmp_dir}: no extra sentences there; put them there as extra*.trees, or as "
                "extra*.text and extra*.tags, plain, .gz or .bz2"
            )
        yield from super().trees(tmp_dir, dataset_split)
        for parts in extra:
            lines = [iterate_lines(path, self.bad_input) for path in parts]
            names = " and ".join(map(str, parts))
            if len(parts) == 1:
                yield from trees.trees_of_lines(lines[0], names, self.bad_input, self.learned)
            else:
                pairs = corpora.aligned(lines[0], lines[1], names, self.bad_input)
                yield from linear_trees.trees_of_pairs(pairs, names, self.bad_input, self.learned)

    def _extra_files(self, tmp_dir: str) -> list[list[pathlib.Path]]:
        """Returns single files of trees, and pairs of text and tags; names without .gz and .bz2."""
        folder = pathlib.Path(tmp_dir)
        matches = [_EXTRA_FILE.fullmatch(path.name) for path in folder.glob("extra*")]
        found = {
            (match[1], ("trees",) if match[2] == "trees" else ("text", "tags"))
            for match in matches
            if match
        }
        return [[folder / f"{stem}.{part}" for part in parts] for stem, parts in sorted(found)]


@registry.register_problem("parsing_tmpdir_16k")
class ParsingTmpdir16k(TreebankProblem):
    """Your own treebank, without any code, processed like the Penn Treebank in `ParsingWsj16k`.

    Put `train.trees`, `eval.trees` and, if you like, `test.trees` into `--tmp_dir`, plain, `.gz` or
    `.bz2`: one tree per line, or trees over several lines as in the LDC's `.mrg` files, which `cat`
    can join. A small treebank yields fewer than 16K subwords.
    """

    dataset_splits = three_splits(10)  # training, development and test
    approx_vocab_size = 2**14  # the paper's 16K

    def optional_files(self, split: str) -> Sequence[str]:
        """Returns the name of the file of the test split."""
        return [_tmpdir_file("", split).name] if split == DatasetSplit.TEST else []

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the one file, if it exists."""
        return corpora.existing_files([_tmpdir_file(tmp_dir, dataset_split)])

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the one file, which must exist before data is generated."""
        return [require_trees(_tmpdir_file(tmp_dir, dataset_split), dataset_split)]

    def trees(self, tmp_dir: str, dataset_split: str) -> Iterator[Tree]:
        """Yields the normalised trees of a file."""
        (path,) = self.fetch_sources(tmp_dir, dataset_split)
        lines = iterate_lines(path, self.bad_input)
        return trees.trees_of_lines(lines, str(path), self.bad_input, self.learned)


@registry.register_problem("parsing_tmpdir_32k")
class ParsingTmpdir32k(ParsingTmpdir16k):
    """`ParsingTmpdir16k` with the paper's 32K words of the semi-supervised setting.

    Put the output of other parsers into `train.trees`, too.
    """

    approx_vocab_size = 2**15  # the paper's 32K


@registry.register_problem
class ParsingTreebankSample(WsjTreebankProblem):
    """The 5 % sample of the Wall Street Journal that NLTK distributes, 3,396 trees.

    Files 0001-0139 are for training, 0140-0149 for evaluation, 0150-0159 for testing. Unpack NLTK's
    folder `corpora/treebank` below `--tmp_dir`, or put `treebank-combined-wsj_0001-0159.tgz` with
    the same files into `--tmp_dir` or its folder `treebank`. Source: `treebank.zip` of
    github.com/nltk/nltk_data; (C) LDC 1995.
    """

    licence = "for non-commercial use only"
    file_numbers: ClassVar[Mapping[str, range]] = {
        DatasetSplit.TRAIN: range(1, 140),
        DatasetSplit.EVAL: range(140, 150),
        DatasetSplit.TEST: range(150, 160),
    }
    origin: ClassVar[str] = f"NLTK's folder corpora/treebank, unpacked, or {_SAMPLE}"
    approx_vocab_size = 4000  # a size for about 70,000 words

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the archive if it exists, else the files of the split."""
        archive = self._archive(tmp_dir)
        return [archive] if archive else super().source_files(tmp_dir, dataset_split)

    def _archive(self, tmp_dir: str) -> pathlib.Path | None:
        return _find_archive(tmp_dir, "treebank", _SAMPLE)

    def tree_files(self, tmp_dir: str) -> Iterator[TreeFile]:
        """Yields the members of the archive if it exists, else the files."""
        archive = self._archive(tmp_dir)
        if archive is None:
            return super().tree_files(tmp_dir)
        return iterate_members(archive, (".mrg",), self.bad_input)


@registry.register_problem
class ParsingTreebankSamplePhrases(ParsingTreebankSample):
    """`ParsingTreebankSample`, with every phrase of its training trees as an extra sentence.

    From few long sentences, a model hardly learns to keep track of its position among the words;
    phrases help much (46,336 examples with the trees; see docs/results.md).
    """

    def examples(self, tmp_dir: str, dataset_split: str) -> Iterator[Tree]:
        """Yields the trees, in training each followed by its phrases."""
        for tree in self.trees(tmp_dir, dataset_split):
            yield tree
            if dataset_split == DatasetSplit.TRAIN:
                yield from trees.phrases(tree)


@registry.register_problem
class ParsingTreebankSamplePhrasesXx(ParsingTreebankSamplePhrases):
    """`ParsingTreebankSamplePhrases` with the tag `XX` for every word that is no punctuation.

    F1 does not count tags, and a model that does not learn them may learn phrases better (Vinyals
    et al. 2015, arXiv:1412.7449). The accuracy of tags says nothing here.
    """

    def normalise(self, tree: Tree) -> Tree:
        """Normalises a tree and replaces its tags."""
        return trees.anonymise(super().normalise(tree))


@registry.register_problem
class ParsingCraft(TreebankProblem):
    """CRAFT 5.0.2: biomedical articles, 18,951 training and 2,780 evaluation trees.

    Put `craft-treebank-penn-train.tgz` and `craft-treebank-penn-dev.tgz` into `--tmp_dir` or its
    folder `craft`: the files `structural-annotation/treebank/penn/ID.tree` of the articles listed
    in `articles/ids/craft-ids-train.txt` and `craft-ids-dev.txt`. Source: the Colorado Richly
    Annotated Full-Text Corpus, github.com/UCDenver-ccp/CRAFT.
    """

    licence = "CC-BY-3.0"
    _ARCHIVES: ClassVar[Mapping[str, str]] = {
        DatasetSplit.TRAIN: "craft-treebank-penn-train.tgz",
        DatasetSplit.EVAL: "craft-treebank-penn-dev.tgz",
    }

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """Training and development."""
        return [
            {"split": DatasetSplit.TRAIN, "shards": 10},
            {"split": DatasetSplit.EVAL, "shards": 1},
        ]

    approx_vocab_size = 8000  # a size for about 490,000 words with many names of genes

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the archive of the split, if it exists."""
        archive = _find_archive(tmp_dir, "craft", self._ARCHIVES[dataset_split])
        return [archive] if archive else []

    def trees(self, tmp_dir: str, dataset_split: str) -> Iterator[Tree]:
        """Yields the normalised trees of an archive.

        Raises:
            UserError: the archive is missing.
        """
        name = self._ARCHIVES[dataset_split]
        archive = _find_archive(tmp_dir, "craft", name)
        if archive is None:
            raise UserError(
                f"{pathlib.Path(tmp_dir) / name} is missing; it should contain the .tree files of "
                "the articles that CRAFT lists for this split"
            )
        for member, lines in iterate_members(archive, (".tree",), self.bad_input):
            yield from trees.trees_of_lines(lines, member, self.bad_input, self.learned)


@registry.register_problem
class ParsingTreebankSampleCraft(ParsingTreebankSample):
    """`ParsingTreebankSample` plus CRAFT's training trees; needs the files and licences of both."""

    licence = f"{ParsingTreebankSample.licence}; CRAFT's trees: {ParsingCraft.licence}"
    approx_vocab_size = 16000  # a size that splits the sample's words no more than without CRAFT's

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the sample's files and, for training, CRAFT's."""
        sample = super().source_files(tmp_dir, dataset_split)
        if dataset_split != DatasetSplit.TRAIN:
            return sample
        return [*sample, *ParsingCraft().source_files(tmp_dir, dataset_split)]

    def trees(self, tmp_dir: str, dataset_split: str) -> Iterator[Tree]:
        """Yields the sample's trees, then, for training, CRAFT's."""
        yield from super().trees(tmp_dir, dataset_split)
        if dataset_split == DatasetSplit.TRAIN:
            yield from self._trees_of_craft(tmp_dir)

    def _trees_of_craft(self, tmp_dir: str) -> Iterator[Tree]:
        craft = ParsingCraft()
        craft.bad_input = self.bad_input
        return craft.trees(tmp_dir, DatasetSplit.TRAIN)


@registry.register_problem
class ParsingTreebankSamplePhrasesCraft(ParsingTreebankSampleCraft):
    """`ParsingTreebankSampleCraft` with every phrase of the sample's training trees added."""

    def examples(self, tmp_dir: str, dataset_split: str) -> Iterator[Tree]:
        """Yields the trees, then, for training, the phrases of the sample's trees."""
        if dataset_split != DatasetSplit.TRAIN:
            yield from self.trees(tmp_dir, dataset_split)
            return
        # Read once, so that a bad tree is counted once.
        sample = list(ParsingTreebankSample.trees(self, tmp_dir, dataset_split))
        yield from sample
        yield from self._trees_of_craft(tmp_dir)
        for tree in sample:
            yield from trees.phrases(tree)


def _tmpdir_file(tmp_dir: str, split: str) -> pathlib.Path:
    return pathlib.Path(tmp_dir) / f"{split}.trees"


def _wsj_files(tmp_dir: str) -> list[pathlib.Path]:
    """Returns the files of trees in a folder and below, also in folders that it links to."""
    found: list[pathlib.Path] = []
    seen = {os.path.realpath(tmp_dir)}
    for folder, below, names in os.walk(tmp_dir, onerror=_refuse_unreadable, followlinks=True):
        found += (pathlib.Path(folder, name) for name in fnmatch.filter(names, "wsj_*.mrg"))
        # Each folder is visited once: a link may lead back to one above.
        places = {os.path.realpath(os.path.join(folder, name)): name for name in sorted(below)}
        below[:] = [name for place, name in places.items() if place not in seen]
        seen.update(places)
    return sorted(found)


def _refuse_unreadable(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _find_archive(tmp_dir: str, folder: str, name: str) -> pathlib.Path | None:
    candidates = (pathlib.Path(tmp_dir) / name, pathlib.Path(tmp_dir) / folder / name)
    return next((path for path in candidates if path.is_file()), None)
