"""What is wrong with text that can be read is found, and sound text is not complained about."""

import logging
import pathlib
import random
import unicodedata
from typing import ClassVar

import pytest

from t2t_lite.data.problem import DatasetSplit, three_splits
from t2t_lite.data.text_problems import (
    Text2ClassProblem,
    Text2SelfProblem,
    Text2TextProblem,
    TextConcat2ClassProblem,
    TranslateProblem,
)
from t2t_lite.errors import UserError
from t2t_lite.generation import findings as findings_module
from t2t_lite.generation.config import DatagenOptions
from t2t_lite.generation.findings import SplitText, of_data
from t2t_lite.generation.generator import generate_data
from t2t_lite.generation.report import report
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
        first, count = self.starts[dataset_split]
        for number in range(first, first + count):
            source, target = self.pair(number, dataset_split)
            yield {"inputs": source, "targets": target}


def found(problem, data_dir="", tmp_dir="", rules="") -> list[str]:
    """The findings of the report."""
    options = DatagenOptions(clean=rules)
    *_, last = report(problem, str(data_dir), str(tmp_dir), options, None)
    return last.splitlines()[1:] if last.startswith("== findings") else []


def test_sound_text_has_no_findings():
    assert found(Zoo()) == []


# ---- sides


def test_a_split_with_exchanged_sides():
    class Exchanged(Zoo):
        def pair(self, number, split):
            pair = super().pair(number, split)
            return pair[::-1] if split == DatasetSplit.EVAL else pair

    (line,) = found(Exchanged())
    assert line.startswith(
        "dev: source and target language are exchanged in 30 of 30 pairs, first sample 1 of dev"
    )
    assert "exchange the two files or columns" in line


def test_lines_with_exchanged_sides_within_a_split():
    class Exchanged(Zoo):
        def pair(self, number, split):
            pair = super().pair(number, split)
            return pair[::-1] if split == DatasetSplit.TRAIN and number % 5 == 3 else pair

    (line,) = found(Exchanged())
    assert line.startswith("train: source and target language are exchanged in 40 of 200 pairs")
    assert "first sample 4 of train" in line


@pytest.mark.parametrize(
    "script", ["北京大学的学生们今天在图书馆里看书学习", "สวัสดีตอนเช้าทุกคนวันนี้อากาศดีมาก"]
)
def test_scripts_without_spaces_are_sides_too(script):
    class Unspaced(Zoo):
        def pair(self, number, split):
            draw = random.Random(number)
            pair = english(number), "".join(draw.choices(script, k=30))
            return pair[::-1] if split == DatasetSplit.TEST else pair

    (line,) = found(Unspaced())
    assert line.startswith("test: source and target language are exchanged in 30 of 30 pairs")


def test_copied_sentences():
    class Copied(Zoo):
        def pair(self, number, split):
            source, target = super().pair(number, split)
            return source, source if number % 4 == 1 and split == DatasetSplit.TRAIN else target

    (line,) = found(Copied())
    assert line.startswith(
        "train: source and target are the same in 50 of 200 pairs with sentences, first sample 2 of"
    )
    assert "--clean=identical" in line
    assert found(Copied(), rules="identical") == []


def test_a_training_split_that_is_copied_as_a_whole():
    class Copied(Zoo):
        def pair(self, number, split):
            source, target = super().pair(number, split)
            return source, source if split == DatasetSplit.TRAIN else target

    (line,) = found(Copied())
    assert line.startswith("train: source and target are the same in 200 of 200 pairs")


@pytest.mark.parametrize("is_copy", [False, True])
def test_missing_targets_are_no_copies(is_copy):
    class Unlabelled(Zoo):
        def pair(self, number, split):
            source, target = super().pair(number, split)
            return source, "" if split == DatasetSplit.TEST else source if is_copy else target

    assert found(Unlabelled()) == []


class Copy(Zoo):
    """The task is to copy."""

    def pair(self, number, split):
        return english(number), english(number)


class Corrected(Zoo):
    """The task is to correct a spelling, if there is a mistake."""

    def pair(self, number, split):
        right = english(number)
        return right.replace("the", "teh") if number % 2 else right, right


class Names(Zoo):
    """Numbers and names stay as they are."""

    def pair(self, number, split):
        same = (f"New York {number}", "3 1 4 1 5", f"https://zoo.org/some/long/path/{number}")
        return (same[number // 2 % 3],) * 2 if number % 2 else super().pair(number, split)


class Numbers(Zoo):
    """The task is to reverse symbols."""

    def pair(self, number, split):
        symbols = random.Random(number).choices("0123456789", k=4)
        return " ".join(symbols), " ".join(reversed(symbols))


class Answers(Zoo):
    """Both sides are of one language, and both have typical words."""

    def pair(self, number, split):
        draw = random.Random(number)
        animal, place = draw.choice(ANIMALS), draw.choice(PLACES)
        return f"where is the {animal} that was in the {place}?", f"the {animal} is in the {place}"


@pytest.mark.parametrize("kind", [Copy, Corrected, Names, Numbers])
def test_tasks_that_look_like_faults(kind):
    assert found(kind()) == []


def test_copies_are_found_at_any_share():
    class Translated(Copy, TranslateProblem):
        pass

    lines = found(Translated())
    assert [line.partition(":")[0] for line in lines] == ["train", "dev", "test"]


def test_one_language_has_no_direction():
    assert not any("exchanged" in line for line in found(Answers()))


# ---- splits


def test_test_sentences_in_training():
    class Leaked(Zoo):
        def pair(self, number, split):
            return super().pair(number + 300 if number >= 110 and number < 125 else number, split)

    (line,) = found(Leaked())
    assert line.startswith(
        "test: 15 of 30 pairs are in the training data, too, first sample 11 of test, in training "
        "sample 111 of train: remove them"
    )


def test_a_trial_on_one_text_is_not_a_leak():
    class Same(Zoo):
        starts = dict.fromkeys(Zoo.starts, (0, 30))

    assert found(Same()) == []


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("\n", "\r\n"), "lines end in CR, first line 1: convert"),
        (lambda text: text.replace("zurück", "\tzurück"), "1 lines begin or end with a tab"),
        (lambda text: unicodedata.normalize("NFD", text), "lines are not in Unicode's form NFC"),
    ],
)
def test_lines_of_a_vocabulary(tmp_text, change, message):
    path = tmp_text / "vocab.txt"
    path.write_bytes(change(path.read_text("utf-8")).encode())
    lines = [line for line in generated(tmp_text) if line.startswith(str(path))]
    assert len(lines) == 1
    assert message in lines[0]


def test_text_in_another_normal_form_than_nfc_may_have_such_a_vocabulary(tmp_text):
    for path in tmp_text.glob("*.txt"):
        path.write_bytes(unicodedata.normalize("NFD", path.read_text("utf-8")).encode())
    assert generated(tmp_text) == []


@pytest.mark.parametrize("cell", ["nan", "NaN", "<NA>"])
def test_a_missing_cell_of_a_table(tmp_text, cell):
    pairs = [(english(n), german(n) if n not in (41, 77) else cell) for n in range(100)]
    write(tmp_text, "train", pairs)
    (line,) = generated(tmp_text)
    path = tmp_text / "inputs.train.txt"
    assert line.startswith(
        f"train: 2 targets are a missing cell of a table ({cell!r}), first {path}, line 42: drop"
    )


def test_none_may_be_a_translation():
    class Said(Zoo):
        def pair(self, number, split):
            return ("Keine", "None") if number == 7 else super().pair(number, split)

    class Missing(Zoo):
        def pair(self, number, split):
            return (english(number), "None") if number == 7 else super().pair(number, split)

    assert found(Said()) == []
    (line,) = found(Missing())
    assert line.startswith(
        "train: 1 targets are a missing cell of a table ('None'), first sample 8"
    )


# ---- other kinds of problem


class Alone(Text2SelfProblem):
    vocab_type = VocabType.CHARACTER
    dataset_splits = three_splits(1)

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        first, count = Zoo.starts[dataset_split]
        for number in range(first, first + count):
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
        first, count = Zoo.starts[dataset_split]
        for number in range(first, first + count):
            yield {"inputs": "the ape and the cow are animals", "label": number % 2}


def test_labels_are_no_sides():
    assert not any("same" in line or "missing" in line for line in found(Labelled()))


def test_each_of_several_texts_is_a_cell():
    class Texts(TextConcat2ClassProblem):
        vocab_type = VocabType.CHARACTER
        num_classes = 2
        dataset_splits = three_splits(1)

        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            first, count = Zoo.starts[dataset_split]
            for number in range(first, first + count):
                second = "nan" if number == 11 else german(number)
                yield {"inputs": [english(number), second], "label": number % 2}

    (line,) = found(Texts())
    assert line.startswith("train: 1 inputs are a missing cell of a table")


# ---- large corpora, and the file


def test_of_a_large_corpus_a_part_is_looked_at(monkeypatch):
    monkeypatch.setattr(findings_module, "_MOST_PAIRS", 64)
    monkeypatch.setattr(findings_module, "_MOST_DIGESTS", 128)
    text, other = SplitText(), SplitText()
    for first in range(0, 1000, 7):
        numbers = range(first + 1, min(first + 8, 1001))
        text.add(numbers, [english(n) for n in numbers], [german(n) for n in numbers])
    other.add(range(1, 65), [english(n) for n in range(1, 65)], [german(n) for n in range(1, 65)])
    numbers = [pair.number for pair in text.pairs]
    assert numbers == list(range(1, 1001, 16))
    pairs, sought = other.occurrences_in(text)
    assert 0 < sought < 40  # of 64, an eighth is expected
    assert [(pair.number, number) for pair, number in pairs] == [(p.number,) * 2 for p, _ in pairs]
    assert len(pairs) == sought


def test_findings_are_logged_and_replaced(tmp_path, caplog):
    class Exchanged(Zoo):
        def pair(self, number, split):
            pair = super().pair(number, split)
            return pair[::-1] if split == DatasetSplit.EVAL else pair

    data_dir = str(tmp_path)
    with caplog.at_level(logging.WARNING, "t2t_lite"):
        generate_data(Exchanged(), data_dir, "", DatagenOptions(num_workers=1))
    (line,) = of_data(Exchanged(), data_dir)
    assert line in caplog.messages
    Exchanged.pair = Zoo.pair
    for path in tmp_path.glob("exchanged-*"):
        path.unlink()
    generate_data(Exchanged(), data_dir, "", DatagenOptions(num_workers=1))
    assert of_data(Exchanged(), data_dir) == []


@pytest.mark.parametrize("contents", ["[]", "{", '{"all": 3}', '{"all": [3]}'])
def test_a_damaged_file_of_findings(tmp_path, contents):
    path = tmp_path / "zoo.findings.json"
    path.write_text(contents)
    with pytest.raises(UserError, match=rf"{path}.*delete it"):
        of_data(Zoo(), str(tmp_path))
