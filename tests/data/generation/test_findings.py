"""What is wrong with text that can be read is found, and sound text is not complained about."""

import gzip
import logging
import pathlib
import random
import unicodedata
from collections.abc import Callable
from typing import ClassVar

import pytest

from t2t_lite.data.generation import findings as findings_module
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.findings import SplitText, of_data
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.generation.report import report
from t2t_lite.data.problem import DatasetSplit, three_splits
from t2t_lite.data.text_problems import (
    Text2ClassProblem,
    Text2SelfProblem,
    Text2TextProblem,
    TextConcat2ClassProblem,
    TranslateProblem,
)
from t2t_lite.errors import UserError
from t2t_lite.problems.text2text_tmpdir import Text2textTmpdirTokens
from t2t_lite.text.text_encoder import VocabType

ANIMALS = ("ape", "bee", "cow", "dog", "eel", "fox", "gnu", "hen", "imp", "jay", "kid", "lion")
TIERE = ("Affe", "Biene", "Kuh", "Hund", "Aal", "Fuchs", "Gnu", "Henne", "Bengel", "Häher", "Kitz")
PLACES = ("house", "garden", "river", "forest", "street", "kitchen", "school", "station", "barn")
ORTE = ("Haus", "Garten", "Fluss", "Wald", "Straße", "Küche", "Schule", "Bahnhof", "Scheune")


def english(number: int) -> str:
    return (
        f"the {ANIMALS[number % 11]} with number {number} is now in the "
        f"{PLACES[number // 11 % 9]} and it will not come back to us"
    )


def german(number: int) -> str:
    return (
        f"das Tier {TIERE[number % 11]} mit der Nummer {number} ist nun am Ort "
        f"{ORTE[number // 11 % 9]} und kommt nicht mehr zu uns zurück"
    )


class Zoo(Text2TextProblem):
    """200 training pairs, and 30 in each other split; bytes."""

    vocab_type = VocabType.CHARACTER
    dataset_splits = three_splits(1)
    starts: ClassVar = {"train": (0, 200), "eval": (300, 30), "test": (400, 30)}

    def pair(self, number: int, split: str) -> tuple[str, str]:
        return english(number), german(number)

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for number in numbers(dataset_split):
            source, target = self.pair(number, dataset_split)
            yield {"inputs": source, "targets": target}


def numbers(split: str) -> range:
    first, count = Zoo.starts[split]
    return range(first, first + count)


def zoo(change: Callable[[int, str, str, str], tuple[str, str]], *bases: type) -> Zoo:
    """Returns the problem with what `change` makes of a number, its split and its pair."""

    def pair(self, number, split):
        return change(number, split, english(number), german(number))

    return type("Zoo", (Zoo, *bases), {"pair": pair})()


def found(problem, data_dir="", tmp_dir="", rules="") -> list[str]:
    """The findings of the report."""
    options = DatagenOptions(clean=rules)
    *_, last = report(problem, str(data_dir), str(tmp_dir), options, None)
    return last.splitlines()[1:] if last.startswith("== findings") else []


def test_sound_text_has_no_findings():
    assert found(Zoo()) == []


# ---- sides


def unspaced(script: str) -> Callable[[int, str, str, str], tuple[str, str]]:
    """Returns pairs whose target is written in a script without spaces."""

    def pair(number, split, source, _):
        target = "".join(random.Random(number).choices(script, k=30))
        return (target, source) if split == "test" else (source, target)

    return pair


_EXCHANGED = "source and target language are exchanged in"
_SAME = "train: source and target are the same in"


@pytest.mark.parametrize(
    ("change", "beginning", "rest"),
    [
        (
            lambda n, split, x, y: (y, x) if split == "eval" else (x, y),
            f"dev: {_EXCHANGED} 30 of 30 pairs, first sample 1 of dev",
            "exchange the two files or columns",
        ),
        (
            lambda n, split, x, y: (y, x) if split == "train" and n % 5 == 3 else (x, y),
            f"train: {_EXCHANGED} 40 of 200 pairs",
            "first sample 4 of train",
        ),
        (
            unspaced("北京大学的学生们今天在图书馆里看书学习"),
            f"test: {_EXCHANGED} 30 of 30 pairs",
            "",
        ),
        (unspaced("สวัสดีตอนเช้าทุกคนวันนี้อากาศดีมาก"), f"test: {_EXCHANGED} 30 of 30 pairs", ""),
        (
            lambda n, split, x, y: (x, x if split == "train" and n % 4 == 1 else y),
            f"{_SAME} 50 of 200 pairs with sentences, first sample 2 of",
            "--clean=identical",
        ),
        (lambda n, split, x, y: (x, x if split == "train" else y), f"{_SAME} 200 of 200 pairs", ""),
        (
            lambda n, split, x, y: (
                (english(n + 300), german(n + 300)) if 110 <= n < 125 else (x, y)
            ),
            "test: 15 of 30 pairs are in the training data, too, first sample 11 of test, in "
            "training sample 111 of train: remove them",
            "",
        ),
        (
            lambda n, split, x, y: (x, "None" if n == 7 else y),
            "train: 1 targets are a missing cell of a table ('None'), first sample 8",
            "",
        ),
    ],
)
def test_what_is_wrong_with_pairs_is_found(change, beginning, rest):
    (line,) = found(zoo(change))
    assert line.startswith(beginning)
    assert rest in line
    if "--clean=identical" in rest:
        assert found(zoo(change), rules="identical") == []


def copy(number, split, source, target):
    """The task is to copy."""
    return source, source


def corrected(number, split, source, target):
    """The task is to correct a spelling, if there is a mistake."""
    return source.replace("the", "teh") if number % 2 else source, source


def names(number, split, source, target):
    """Numbers and names stay as they are."""
    same = (f"New York {number}", "3 1 4 1 5", f"https://zoo.org/some/long/path/{number}")
    return (same[number // 2 % 3],) * 2 if number % 2 else (source, target)


def symbols(number, split, source, target):
    """The task is to reverse symbols."""
    drawn = random.Random(number).choices("0123456789", k=4)
    return " ".join(drawn), " ".join(reversed(drawn))


def said(number, split, source, target):
    """None is a translation."""
    return ("Keine", "None") if number == 7 else (source, target)


def unlabelled(number, split, source, target):
    """Missing targets are not copies."""
    return source, "" if split == "test" else target


def unlabelled_copy(number, split, source, target):
    return source, "" if split == "test" else source


@pytest.mark.parametrize(
    "change", [copy, corrected, names, symbols, said, unlabelled, unlabelled_copy]
)
def test_tasks_that_look_like_faults(change):
    assert found(zoo(change)) == []


def test_copies_are_found_at_any_share_of_a_translation():
    lines = found(zoo(copy, TranslateProblem))
    assert [line.partition(":")[0] for line in lines] == ["train", "dev", "test"]


def test_one_language_has_no_direction():
    """Both sides are of one language, and both have typical words."""

    def answers(number, split, source, target):
        draw = random.Random(number)
        animal, place = draw.choice(ANIMALS), draw.choice(PLACES)
        return f"where is the {animal} that was in the {place}?", f"the {animal} is in the {place}"

    assert not any("exchanged" in line for line in found(zoo(answers)))


# ---- splits


def test_a_trial_on_one_text_is_not_a_leak(monkeypatch):
    monkeypatch.setattr(Zoo, "starts", dict.fromkeys(Zoo.starts, (0, 30)))
    assert found(Zoo()) == []


def test_one_stream_of_samples_is_split_by_file():
    class Dealt(Zoo):
        is_generate_per_split = False
        dataset_splits = (
            {"split": DatasetSplit.TRAIN, "shards": 2},
            {"split": DatasetSplit.EVAL, "shards": 1},
        )

        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            for number in range(300):  # those of dev are the ones before them again
                again = number // 3 * 3 if number % 3 == 2 else number
                yield {"inputs": english(again), "targets": german(again)}

    (line,) = found(Dealt())
    assert line.startswith("dev: 100 of 100 pairs are in the training data")
    assert "first sample 3 of train, in training sample 1 of train" in line


# ---- texts


class Table(Text2textTmpdirTokens):
    """Two files of `tmp_dir`, in whole words."""

    dataset_splits = three_splits(1)


def write(folder: pathlib.Path, split: str, pairs) -> None:
    for side, lines in zip(("inputs", "targets"), zip(*pairs, strict=True), strict=True):
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"{side}.{split}.txt").write_text(text, encoding="utf-8")


@pytest.fixture
def tmp_text(tmp_path: pathlib.Path) -> pathlib.Path:
    """Aligned files and their vocabulary."""
    pairs = [(english(number), german(number)) for number in range(100)]
    write(tmp_path, "train", pairs)
    write(tmp_path, "eval", [(english(number), german(number)) for number in range(200, 230)])
    words = {word for pair in pairs for line in pair for word in line.split()}
    words |= set(map(str, range(200, 230)))
    lines = "".join(f"{word}\n" for word in sorted(words))
    (tmp_path / "vocab.txt").write_text(lines, encoding="utf-8")
    return tmp_path


def generated(folder: pathlib.Path) -> list[str]:
    """The findings of data generation; the report has the same."""
    data_dir = folder / "data"
    generate_data(Table(), str(data_dir), str(folder), DatagenOptions(num_workers=1))
    lines = of_data(Table(), str(data_dir))
    assert found(Table(), data_dir, folder) == lines
    return lines


def test_sound_data_has_no_file_of_findings(tmp_text):
    assert generated(tmp_text) == []
    assert not list((tmp_text / "data").glob("*.findings.json"))


def test_a_vocabulary_that_does_not_fit_one_split(tmp_text):
    write(tmp_text, "eval", [(english(n).upper(), german(n)) for n in range(200, 230)])
    (line,) = generated(tmp_text)
    assert line.startswith("dev: 94% of the words of inputs are unknown to the vocabulary")
    assert f"first 'THE', {tmp_text}/inputs.eval.txt, line 1: " in line


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("\n", "\r\n"), "lines end in CR, first line 1: convert"),
        (lambda text: text.replace("zurück", "\tzurück"), "1 lines begin or end with a tab"),
        (lambda text: unicodedata.normalize("NFD", text), "lines are not in Unicode's form NFC"),
    ],
)
def test_lines_of_a_vocabulary(tmp_text, change, message, suffix):
    path = tmp_text / "vocab.txt"
    contents = change(path.read_text("utf-8")).encode()
    path.unlink()
    path = tmp_text / f"vocab.txt{suffix}"
    path.write_bytes(gzip.compress(contents) if suffix else contents)
    lines = [line for line in generated(tmp_text) if line.startswith(str(path))]
    assert len(lines) == 1
    assert message in lines[0]


_CRLF = int.from_bytes(b"\r\n\r\n", "little")  # a time that looks like line ends


def test_a_compressed_vocabulary_is_read_as_text(tmp_text):
    path = tmp_text / "vocab.txt"
    (tmp_text / "vocab.txt.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=_CRLF))
    path.unlink()
    assert generated(tmp_text) == []


def test_text_in_another_normal_form_than_nfc_may_have_such_a_vocabulary(tmp_text):
    for path in tmp_text.glob("*.txt"):
        path.write_bytes(unicodedata.normalize("NFD", path.read_text("utf-8")).encode())
    assert generated(tmp_text) == []


def decomposed(splits: tuple[str, ...], every: int = 1) -> Zoo:
    """Returns the problem with targets of some splits in NFD, one of so many."""

    def pair(number, split, source, target):
        is_other = split in splits and not number % every
        return source, unicodedata.normalize("NFD", target) if is_other else target

    return zoo(pair)


def test_targets_in_another_form_of_unicode():
    (line,) = found(decomposed(("eval",)))
    assert line.startswith("dev: targets are not in Unicode's form NFC, as others are, in 30 of 30")
    (line,) = found(decomposed(("train",), every=50))
    assert line.startswith("train: targets are not in Unicode's form NFC")
    assert "in 4 of 200 pairs with accents" in line
    assert found(decomposed(("train",), every=200)) == []
    assert found(decomposed(("train", "eval", "test"))) == []


@pytest.mark.parametrize("cell", ["nan", "NaN", "<NA>"])
def test_a_missing_cell_of_a_table(tmp_text, cell):
    pairs = [(english(n), german(n) if n not in (41, 77) else cell) for n in range(100)]
    write(tmp_text, "train", pairs)
    (line,) = generated(tmp_text)
    path = tmp_text / "inputs.train.txt"
    assert line.startswith(
        f"train: 2 targets are a missing cell of a table ({cell!r}), first {path}, line 42: drop"
    )


# ---- other kinds of problem


class Alone(Text2SelfProblem):
    vocab_type = VocabType.CHARACTER
    dataset_splits = three_splits(1)

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for number in numbers(dataset_split):
            yield {"targets": "nan" if number == 9 else english(number)}


def test_a_language_model_has_no_sides_to_compare():
    (line,) = found(Alone())
    assert line.startswith("train: 1 targets are a missing cell")


class Labelled(Text2ClassProblem):
    vocab_type = VocabType.CHARACTER
    num_classes = 2
    dataset_splits = three_splits(1)

    def class_labels(self, data_dir):
        return ["nan", "the ape and the cow are animals"]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for number in numbers(dataset_split):
            yield {"inputs": "the ape and the cow are animals", "label": number % 2}


def test_labels_are_no_sides():
    assert not any("same" in line or "missing" in line for line in found(Labelled()))


def test_each_of_several_texts_is_a_cell():
    class Texts(TextConcat2ClassProblem):
        vocab_type = VocabType.CHARACTER
        num_classes = 2
        dataset_splits = three_splits(1)

        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            for number in numbers(dataset_split):
                second = "nan" if number == 11 else german(number)
                yield {"inputs": [english(number), second], "label": number % 2}

    (line,) = found(Texts())
    assert line.startswith("train: 1 inputs are a missing cell of a table")


# ---- large corpora, and the file


def test_of_a_large_corpus_a_part_is_looked_at(monkeypatch):
    monkeypatch.setattr(findings_module, "_MOST_PAIRS", 64)
    monkeypatch.setattr(findings_module, "_MOST_DIGESTS", 128)
    text, other = SplitText(), SplitText()

    def add(text: SplitText, some: range) -> None:
        text.add(some, [english(n) for n in some], [german(n) for n in some])

    for first in range(0, 1000, 7):
        add(text, range(first + 1, min(first + 8, 1001)))
    add(other, range(1, 65))
    assert [pair.number for pair in text.pairs] == list(range(1, 1001, 16))
    pairs, sought = other.occurrences_in(text)
    assert 0 < sought < 40  # of 64, an eighth is expected
    assert [(pair.number, number) for pair, number in pairs] == [(p.number,) * 2 for p, _ in pairs]
    assert len(pairs) == sought


def test_findings_are_logged_and_replaced(tmp_path, caplog):
    exchanged, data_dir = zoo(lambda n, s, x, y: (y, x) if s == "eval" else (x, y)), str(tmp_path)
    with caplog.at_level(logging.WARNING, "t2t_lite"):
        generate_data(exchanged, data_dir, "", DatagenOptions(num_workers=1))
    (line,) = of_data(exchanged, data_dir)
    assert line in caplog.messages
    type(exchanged).pair = Zoo.pair
    for path in tmp_path.glob("zoo-*"):
        path.unlink()
    generate_data(exchanged, data_dir, "", DatagenOptions(num_workers=1))
    assert of_data(exchanged, data_dir) == []


@pytest.mark.parametrize("contents", ["[]", "{", '{"all": 3}', '{"all": [3]}'])
def test_a_damaged_file_of_findings(tmp_path, contents):
    path = tmp_path / "zoo.findings.json"
    path.write_text(contents)
    with pytest.raises(UserError, match=rf"{path}.*delete it"):
        of_data(Zoo(), str(tmp_path))


def test_findings_stay_where_a_later_split_fails_or_is_made_alone(tmp_path):
    def change(number, split, source, target):
        if split == "test" and number == 405 and broken:
            raise UserError("no such file")
        if split in ("train", "eval") and number % 5 == 3:
            return target, source
        return source, target

    broken, problem, data_dir = [True], zoo(change), str(tmp_path)
    with pytest.raises(UserError, match="no such file"):
        generate_data(problem, data_dir, "", DatagenOptions(num_workers=1))
    before = of_data(problem, data_dir)
    assert [line.partition(":")[0] for line in before] == ["train", "dev"]
    broken.clear()
    generate_data(problem, data_dir, "", DatagenOptions(num_workers=1))
    assert of_data(problem, data_dir) == before
    (path,) = tmp_path.glob("zoo-test-*")
    path.unlink()
    generate_data(problem, data_dir, "", DatagenOptions(num_workers=1))
    assert of_data(problem, data_dir) == before


def test_a_leak_is_forgotten_with_the_training_text_that_had_it(tmp_path):
    leak = [True]
    problem = zoo(lambda n, split, x, y: (english(n % 30), german(n % 30)) if leak else (x, y))
    data_dir = str(tmp_path)
    generate_data(problem, data_dir, "", DatagenOptions(num_workers=1))
    assert "in the training data" in "".join(of_data(problem, data_dir))
    leak.clear()
    for path in tmp_path.glob("zoo-train-*"):
        path.unlink()
    generate_data(problem, data_dir, "", DatagenOptions(num_workers=1))
    assert of_data(problem, data_dir) == []
