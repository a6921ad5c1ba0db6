"""Plain text, labels and other tasks as members of a mixture."""

import itertools
import random
from collections import Counter

import pytest
import tensorflow as tf

from support.mixtures import CZECH, FRENCH, GERMAN, generate, toys
from support.texts import write_lines
from t2t_lite import registry
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.generation.inspection import inspect
from t2t_lite.data.generation.report import report
from t2t_lite.data.mixture import Direction, MultilingualProblem
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.records import read_examples
from t2t_lite.data.text_problems import (
    Text2ClassProblem,
    Text2SelfProblem,
    Text2TextProblem,
    TextConcat2ClassProblem,
)
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.metrics.parts import parts_of, without_split
from t2t_lite.text.denoising import with_noise
from t2t_lite.training.training_data import TrainingData

PLAIN, DENOISE = "plain_toy", "plain_toy_denoise"
JOINT = f"{GERMAN}:0.5..0.9+{PLAIN}:0.25..0.05+{DENOISE}:0.25..0.05"


class Plain(Text2SelfProblem):
    """Words of letters that begin with de."""

    empty = False

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        draw = random.Random(f"plain {dataset_split}")
        for _ in range(80):
            words = ["de" + "".join(draw.choices("abcdef", k=4)) for _ in range(draw.randint(4, 9))]
            yield {"targets": "" if self.empty else " ".join(words)}


class Labels(Text2ClassProblem):
    """Whether a text has an a."""

    num_classes = 2

    def class_labels(self, data_dir):
        return ["without", "with"]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        draw = random.Random(f"labels {dataset_split}")
        for _ in range(60 if dataset_split == "train" else 10):
            text = "".join(draw.choices("abcdef", k=5))
            yield {"inputs": text, "label": int("a" in text)}


class Both(Text2TextProblem):
    """Pairs of an unknown language."""

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for number in range(40):
            yield {"inputs": f"a{number} b", "targets": f"b{number} a"}


class Concat(TextConcat2ClassProblem, Labels):
    """Two texts with a label."""


@pytest.fixture(scope="module", autouse=True)
def _problems(few_shards):
    with toys():
        named = (PLAIN, Plain), ("label_toy", Labels), ("concat_toy", Concat), ("both_toy", Both)
        for name, kind in named:
            registry.register_problem(name)(kind)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The data of JOINT."""
    folder = tmp_path_factory.mktemp("joint")
    generate(folder, JOINT)
    return folder


def examples(member, folder):
    """Returns the texts of a member's training files, and the ids before the sources."""
    encoders = member.get_feature_encoders(str(folder))
    found = list(read_examples(member.existing_filepaths(str(folder), DatasetSplit.TRAIN)))
    texts = [tuple(encoders[side].decode(one[side]) for side in encoders) for one in found]
    return texts, {tuple(encoders["inputs"].start_of(one["inputs"])) for one in found}, found


def plain_lines():
    return [sample["targets"] for sample in Plain().generate_samples("", "", DatasetSplit.TRAIN)]


def test_a_name_is_of_plain_text_or_of_text_to_mend():
    problem = registry.problem(JOINT)
    assert problem.name == JOINT
    assert [member.name for member in problem.members] == [GERMAN, PLAIN, DENOISE]
    languages = [member.data_languages for member in problem.members]
    assert languages == [("en", "de"), ("", "de"), ("de", "de")]
    assert problem.data_languages == ("en", "de")
    assert problem.additional_reserved_tokens == [], "there is one language of targets"
    assert problem.metrics == registry.problem(GERMAN).metrics
    assert problem.final_rates == pytest.approx([0.9, 0.05, 0.05])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (f"{GERMAN}+{FRENCH}+{PLAIN}", f"the targets of '{PLAIN}' is unknown: name it"),
        (f"{GERMAN}+{FRENCH}_denoise", "has sources, so that there is no _denoise of it"),
        (f"{GERMAN}+plain_toi_denoise", "unknown problem 'plain_toi'; did you mean 'plain_toy'"),
        (f"{PLAIN}+{DENOISE}", f"'{PLAIN}' is plain text, and so are all others"),
        (f"{GERMAN}+{PLAIN}_rev", "has no inputs, so that there is no _rev or _copy"),
        (f"{GERMAN}+concat_toy", "has several texts in a source"),
        (f"{GERMAN}+label_toy", "the targets of 'label_toy' is unknown: name it"),
    ],
)
def test_what_cannot_be_a_member(name, message):
    with pytest.raises(UsageError, match=message):
        registry.problem(name)


def test_plain_text_is_the_target_of_nothing_or_of_itself_with_noise(folder):
    pairs, plain, denoise = registry.problem(JOINT).members
    texts, starts, found = examples(plain, folder)
    assert Counter(texts) == Counter(("", line) for line in plain_lines())
    assert all(one["inputs"] == [1] for one in found)
    noisy, _, _ = examples(denoise, folder)
    assert Counter(noisy) == Counter((with_noise(line), line) for line in plain_lines())
    assert sum(source != target for source, target in noisy) > 70
    assert starts == {()}
    assert len(examples(pairs, folder)[0]) == 300


def test_sources_of_plain_text_begin_with_their_language_and_tag(tmp_path):
    class Tagged(MultilingualProblem):
        directions = (
            *(GERMAN, FRENCH, Direction(PLAIN, target_language="fr")),
            Direction(DENOISE, target_language="de", tag="mend"),
        )
        approx_vocab_size = 330

    problem = Tagged()
    generate_data(problem, str(tmp_path), "")
    german, french, plain, denoise = (examples(m, tmp_path)[1] for m in problem.members)
    assert plain == french
    ((mend, tag),) = denoise
    assert german == {(mend,)}
    assert problem.get_feature_encoders(str(tmp_path))["inputs"].tokens[tag] == "<mend>"
    assert all(one["inputs"][1:] == [1] for one in examples(problem.members[2], tmp_path)[2])


def test_plain_text_is_for_training_alone(folder):
    problem = registry.problem(JOINT)
    for split in (DatasetSplit.EVAL, DatasetSplit.TEST):
        assert [part.label for part in parts_of(problem, split)] == ["de"]
        assert without_split(problem, split) == []
        assert len(problem.existing_filepaths(str(folder), split)) == 1
    labels = [p.label for p in parts_of(registry.problem(f"{JOINT}"), DatasetSplit.EVAL)]
    assert labels == ["de"], "plain text does not change the labels of others"
    assert not list(folder.glob(f"*{PLAIN}*-dev-*"))


def test_plain_text_beside_pairs_of_unknown_languages(tmp_path):
    name = f"both_toy+{PLAIN}+{DENOISE}"
    problem = generate(tmp_path, name)
    assert problem.additional_reserved_tokens == []
    assert [len(examples(m, tmp_path)[0]) for m in problem.members] == [40, 80, 80]


def test_your_own_text_stands_beside_your_own_pairs(tmp_path):
    pairs = [(f"in {n} a", f"out {n} b") for n in range(60)]
    for side, lines in zip(("inputs", "targets"), zip(*pairs, strict=True), strict=True):
        write_lines(tmp_path / f"{side}.train.txt", lines)
    name = "text2text_tmpdir_bpe+plain_text_tmpdir+plain_text_tmpdir_denoise"
    with pytest.raises(UserError, match=r"text\.train\.txt.* the text, one per line"):
        generate(tmp_path, name)
    text = [f"text {n} c" for n in range(30)]
    write_lines(tmp_path / "text.train.txt", [*text, "\u200b"])
    problem = generate(tmp_path, name)
    found = [examples(member, tmp_path)[0] for member in problem.members]
    assert sorted(found[0]) == sorted(pairs[:-3]), "the last pairs are the dev split"
    assert sorted(found[1]) == sorted(("", line) for line in text)
    assert sorted(found[2]) == sorted((with_noise(line), line) for line in text)


def test_the_vocabulary_is_of_the_text_once(monkeypatch):
    """Neither of the noise nor of the empty sources."""
    problem = registry.problem(f"{GERMAN}+{PLAIN}")
    lines = Counter(problem.generate_text_for_vocab("", ""))
    assert "" not in lines
    assert set(plain_lines()) <= set(lines)
    noisy = {with_noise(line) for line in plain_lines()} - set(plain_lines())
    both = registry.problem(f"{GERMAN}+{DENOISE}")
    assert not noisy & set(both.generate_text_for_vocab("", ""))


def test_cleaning_looks_at_plain_text_as_at_a_language_model(tmp_path):
    name = f"{GERMAN}+{PLAIN}+{DENOISE}"
    problem = registry.problem(name)
    rules = "empty,identical,max_length=6,max_ratio=1.5,script=Latn-Latn"
    generate_data(problem, str(tmp_path), "", DatagenOptions(clean=rules))
    kept = Counter(line for line in plain_lines() if len(line.split()) <= 6)
    for member in problem.members[1:]:
        assert Counter(target for _, target in examples(member, tmp_path)[0]) == kept


def test_an_empty_line_of_plain_text_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(Plain, "empty", True)
    for name in (PLAIN, DENOISE):
        with pytest.raises(DataError, match=r"sample 1: (inputs|targets) is empty"):
            generate(tmp_path / name, f"{GERMAN}+{name}")


def test_alignments_are_of_pairs(tmp_path):
    options = DatagenOptions(alignments="auto")
    with pytest.raises(UsageError, match=f"'{PLAIN}' has no pairs of texts"):
        generate_data(registry.problem(JOINT), str(tmp_path), "", options)
    assert not list(tmp_path.iterdir()), "nothing is generated before"


@pytest.mark.integration
def test_report_and_inspection_show_what_is_trained(folder):
    problem = registry.problem(JOINT)
    blocks = list(report(problem, str(folder), "", DatagenOptions(), None))
    starts = [n for n, block in enumerate(blocks) if block.startswith("==")]
    titles = [blocks[n].split(" ")[1].partition("-")[2] for n in starts]
    assert titles == [GERMAN] * 3 + [PLAIN, DENOISE]
    plain = "\n".join(blocks[starts[-2] : starts[-1]])
    assert "findings" not in "".join(blocks)
    assert "plain_toy" in plain
    shown = {m.name: dict(inspect(m, str(folder))) for m in problem.members}
    assert shown[PLAIN].keys() == shown[DENOISE].keys() == {"train"}
    assert shown[PLAIN]["train"].faults == shown[DENOISE]["train"].faults == {}
    assert {source for source, _ in shown[PLAIN]["train"].lengths} == {1}
    assert len({source for source, _ in shown[DENOISE]["train"].lengths}) > 3


def test_labels_are_texts_in_a_language_of_their_own(tmp_path):
    class Tasks(MultilingualProblem):
        directions = (GERMAN, Direction("label_toy", target_language="a_or_not"))
        approx_vocab_size = 330

    problem = Tasks()
    generate_data(problem, str(tmp_path), "")
    texts, (start,), _ = examples(problem.members[1], tmp_path)
    assert {target for _, target in texts} == {"with", "without"}
    assert all(("a" in source) == (target == "with") for source, target in texts)
    encoder = problem.get_feature_encoders(str(tmp_path))["inputs"]
    assert encoder.encode(">>a_or_not<<abc")[0] == start[0]
    assert problem.metrics == ("chrf",)
    assert [part.metrics for part in parts_of(problem, DatasetSplit.EVAL)] == [
        *(("chrf", "bleu"), ("chrf", "exact_match"))
    ]
    assert not problem.has_labels


def test_any_order_and_number_of_workers_gives_the_same_files(folder, tmp_path):
    name = "+".join(f"{n}:1" for n in (DENOISE, PLAIN, GERMAN))
    generate_data(registry.problem(name), str(tmp_path), "", DatagenOptions(num_workers=2))
    for path in folder.glob("*-train-*"):
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()
    assert len(list(tmp_path.glob("*-train-*"))) == len(
        list(itertools.chain(folder.glob("*-train-*")))
    )


@pytest.mark.integration
def test_shares_change_and_a_resumed_run_goes_on_with_the_same_examples(folder, tmp_path):
    """An empty source tells plain text; other segmentations and noise change nothing in it."""
    hparams = BasicHParams(
        batch_size=64,
        max_length=48,
        batch_shuffle_size=1,
        mixture_annealing_steps=150,
        bpe_dropout=0.1,
        source_typo_noise=0.1,
    )
    data = TrainingData(registry.problem(JOINT), str(folder), hparams, 1)
    iterator = iter(data.batches(2))
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    batches = [next(iterator) for _ in range(170)]
    saved = checkpoint.write(str(tmp_path / "position"))
    following = [next(iterator) for _ in range(5)]
    resumed = iter(TrainingData(registry.problem(JOINT), str(folder), hparams, 1).batches(2))
    tf.train.Checkpoint(iterator=resumed).read(saved)
    for batch in following:
        again = next(resumed)
        assert all((batch[side] == again[side]).numpy().all() for side in batch)
    empty = [(batch["inputs"][..., 0] == 1).numpy().sum() for batch in batches]
    every = [(batch["targets"][..., 0] != 0).numpy().sum() for batch in batches]
    shares = [sum(empty[a:b]) / sum(every[a:b]) for a, b in ((0, 40), (130, 170))]
    assert shares[0] > 0.17
    assert 0 < shares[1] < 0.11


def test_rev_members_stay_beside_plain_text(tmp_path):
    problem = generate(tmp_path, f"{CZECH}_rev+{PLAIN}")
    assert [member.target_language for member in problem.members] == ["en", "en"]
