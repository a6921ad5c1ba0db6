"""Training data with alignments: from a file, or made by t2t-datagen."""

import numpy as np
import pytest

from support.imported_runs import write_vocabulary
from t2t_lite import registry
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.records import read_examples
from t2t_lite.data.text_problems import Text2SelfProblem
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.text.sample import ALIGNMENT

WORDS = ["red", "blue", "green", "old", "new", "big", "small", "car", "house", "tree"]


def _exchanged(size, random):
    order = [*range(size)]
    if size > 1:
        i = random.integers(size - 1)
        order[i], order[i + 1] = order[i + 1], order[i]
    return order


@pytest.fixture
def folder(tmp_path):
    """Words, and the same words in capitals, two of which are exchanged."""
    random = np.random.default_rng(1)
    pairs = [random.choice(WORDS, random.integers(5, 9), replace=False) for _ in range(200)]
    orders = [_exchanged(len(words), random) for words in pairs]
    for split in ("train", "eval"):
        sources = [" ".join(words) for words in pairs]
        targets = [
            " ".join(w[i].upper() for i in order) for w, order in zip(pairs, orders, strict=True)
        ]
        (tmp_path / f"inputs.{split}.txt").write_text("\n".join(sources) + "\n")
        (tmp_path / f"targets.{split}.txt").write_text("\n".join(targets) + "\n")
    links = [" ".join(f"{i}-{j}" for j, i in enumerate(order)) for order in orders]
    (tmp_path / "links.txt").write_text("\n".join(links) + "\n")
    return tmp_path


@pytest.fixture
def problem():
    return registry.problem("text2text_tmpdir_bpe")


def generate(problem, folder, alignments, data="data", **options):
    options = DatagenOptions(alignments=str(alignments), num_workers=1, **options)
    generate_data(problem, str(folder / data), str(folder), options)
    return [*read_examples(problem.filepaths(str(folder / data), "train"))]


def words_of(problem, folder, example, data="data"):
    """Returns the source word and the target word of each alignment, as text."""
    from t2t_lite.text.alignment.id_links import word_places

    encoder = problem.feature_encoders(str(folder / data))["inputs"]
    sides = [example[side][:-1] for side in ("inputs", "targets")]
    places = [word_places(encoder, ids) for ids in sides]
    words = [encoder.decode(ids).split() for ids in sides]
    pairs = zip(places[1], example[ALIGNMENT][:-1], strict=True)
    eos = len(example["inputs"])
    return [(words[0][places[0][i - 1]] if i < eos else "", words[1][j]) for j, i in pairs]


@pytest.mark.parametrize("options", [{}, {"clean": "duplicates"}])
def test_links_of_words_become_those_of_ids(problem, folder, options):
    examples = generate(problem, folder, folder / "links.txt", **options)
    assert len(examples) > 50
    for example in examples:
        assert len(example[ALIGNMENT]) == len(example["targets"])
        assert example[ALIGNMENT][-1] == len(example["inputs"]), "EOS is aligned to EOS"
        assert all(
            target == source.upper() for source, target in words_of(problem, folder, example)
        )
    evaluation = next(read_examples(problem.filepaths(str(folder / "data"), "eval")))
    assert ALIGNMENT not in evaluation


def test_words_without_a_link_are_aligned_to_eos(problem, folder):
    path = folder / "links.txt"
    lines = [line.split() for line in path.read_text().splitlines()]
    path.write_text("".join(" ".join(links[1:]) + "\n" for links in lines))
    for example in generate(problem, folder, path):
        found = words_of(problem, folder, example)
        assert {source for source, target in found if target != source.upper()} == {""}


def test_they_are_made_here(problem, folder):
    examples = generate(problem, folder, "auto")
    found = [pair for example in examples for pair in words_of(problem, folder, example)]
    right = sum(target == source.upper() for source, target in found)
    assert right / len(found) > 0.9


def test_without_the_option_there_are_none(problem, folder):
    plain = generate(problem, folder, "")
    assert all(example.keys() == {"inputs", "targets"} for example in plain)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "fewer lines than the training text"),
        (
            lambda lines: [*lines, "0-0"],
            "more lines than the training text .* are not training pairs",
        ),
        (lambda lines: ["0-0", "9-0", *lines[2:]], "line 2: link 9-0 is outside of the pair, of"),
        (lambda lines: ["0:0", *lines[1:]], "line 1: expected links such as 0-0 1-2, got '0:0'"),
    ],
)
def test_files_that_do_not_fit_are_refused(problem, folder, change, message):
    path = folder / "links.txt"
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    with pytest.raises(DataError, match=message):
        generate(problem, folder, path)


@pytest.mark.parametrize("is_python", [False, True])
def test_links_are_ignored_where_aligners_may_count_words_otherwise(
    problem, folder, caplog, is_python
):
    path, links = folder / "inputs.train.txt", folder / "links.txt"
    first, second, third, *others = path.read_text().splitlines()
    joined = [text.replace(" ", "\xa0", 1) for text in (second, third)]  # one word for fast_align
    path.write_text("\n".join([f"\xa0{first}", *joined, *others]) + "\n")
    written = links.read_text().splitlines()
    last = len(third.split()) - 1
    written[1] = "0-0"  # which both may write
    written[2] = f"0-0 {last}-{last}" if is_python else "0-0"
    links.write_text("\n".join(written) + "\n")
    examples = generate(problem, folder, links)
    encoder = problem.feature_encoders(str(folder / "data"))["inputs"]
    aligned = {encoder.decode(e["inputs"][:-1]): any(e[ALIGNMENT][:-1]) for e in examples}
    assert not aligned.pop(second)  # as models read it
    assert aligned.pop(third) == is_python
    assert len(aligned) > 100
    assert all(aligned.values())
    assert f"ignored the links of {2 - is_python} pairs, first on line 2" in caplog.text


def test_links_are_ignored_where_the_vocabulary_shows_other_words(folder, caplog):
    write_vocabulary(folder / "data", default="de")
    for split in ("train", "eval"):
        for side, line in (("inputs", "w1 unknown w2"), ("targets", "w3 w4 w5")):
            (folder / f"{side}.{split}.txt").write_text(f"{line}\nw6 w7 w8\n" * 200)
    (folder / "links.txt").write_text("0-0 1-1 2-2\n" * 400)
    examples = generate(registry.problem("translate_imported"), folder, folder / "links.txt")
    assert sum(not any(example[ALIGNMENT]) for example in examples) == 200
    assert "ignored the links of 200 pairs: the vocabulary shows other words" in caplog.text


def test_changed_alignments_are_noticed(problem, folder):
    path = folder / "links.txt"
    generate(problem, folder, path)
    path.write_text(path.read_text().replace("0-0", "0-0 0-0"))
    with pytest.raises(UserError, match="alignments"):
        generate(problem, folder, path)


class Alone(Text2SelfProblem):
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        yield {"targets": "a"}


def test_problems_without_translations_are_refused(tmp_path):
    with pytest.raises(UsageError, match="has no pairs of texts that translate each other"):
        generate(Alone(), tmp_path, "auto")
