"""T2T's contracts for problems, by a user directory and by classes of their own."""

import gzip
import json
import logging
import pathlib
from typing import ClassVar

import numpy as np
import pytest

from support.texts import decoded_pairs
from support.usr_dirs import generate
from t2t_lite import registry
from t2t_lite.data.example_reader import ExampleReader
from t2t_lite.data.generation import generator
from t2t_lite.data.records import frame, read_examples, serialize
from t2t_lite.errors import DataError, UserError
from t2t_lite.interop.t2t import (
    generator_utils,
    metrics,
    problem,
    random_symbols,
    text_encoder,
    text_problems,
    translate,
)
from t2t_lite.interop.t2t.adapter import adapted
from t2t_lite.interop.t2t.modalities import ModalityType

# ---- the user directory


def test_one_split_is_dealt_over_all_files(usr_dir, folders):
    found = generate("usr_counting", folders)
    train, dev = decoded_pairs(found, folders[0], "train"), decoded_pairs(found, folders[0], "eval")
    assert (len(train), len(dev)) == (300, 100)
    assert all(source.split() == target.split()[::-1] for source, target in train + dev)
    assert found.vocab_files() == ["vocab.usr_counting.256.subwords"]


def test_metrics_are_the_registered_ones(usr_dir, caplog):
    with caplog.at_level(logging.WARNING):
        assert registry.problem("usr_counting").metrics == ["bleu", "accuracy", "rouge_2"]
    assert not caplog.text
    assert registry.problem("translate_usr").metrics == ["bleu"]
    assert set(metrics.REGISTERED.values()) <= set(registry.list_metrics())


def test_data_sets_of_all_layouts_are_read_from_their_archives(usr_dir, folders):
    found = generate("translate_usr", folders)
    train = decoded_pairs(found, folders[0], "train")
    assert len(train) == 50 + 5 + 5 + 5 + 4
    assert {
        ("Cat number 49 is here.", "Katze number 49 is here."),
        ("News 4 & more.", "Neues 4 & more."),
        ("Line 4", "Zeile 4"),
        ("Memory 4.", "Speicher 4."),
        ("Dog number 3 is here.", "Hund number 3 is here."),
    } <= set(train)
    assert len(decoded_pairs(found, folders[0], "eval")) == 10
    assert not list(pathlib.Path(folders[1]).glob("*compiled*"))
    sources = [path.name for path in found.source_files(folders[1], "train")]
    assert sources == ["text.tgz", "news.tar", "table.tsv.gz", "memory.tmx.gz", "packed.zip"]


def test_cleaning_and_the_vocabulary_of_another_problem(usr_dir, folders):
    found = generate("translate_usr_clean", folders)
    train = decoded_pairs(found, folders[0], "train")
    assert ("A first one.", "Ein erster.") in train
    assert ("A second one.", "Ein zweiter.") in train
    assert ("Line 4", "Zeile 4") in train  # a table, which is not cleaned
    assert ("no sentence", "kein Satz") not in train
    assert found.vocab_files() == ["vocab.translate_usr.256.subwords"]


def test_a_vocabulary_of_the_users(usr_dir, folders):
    found = generate("usr_parity", folders)
    train = decoded_pairs(found, folders[0], "train")
    assert len(train) == 200
    assert set(train[:]) >= {("a", "odd"), ("ab", "even")}
    first = next(read_examples(found.existing_filepaths(folders[0], "train")))
    assert first["inputs"][-1] == first["targets"][-1] == text_encoder.EOS_ID
    encoders = found.get_feature_encoders(folders[0])
    assert [encoders[side].vocab_size for side in ("inputs", "targets")] == [30, 4]
    assert encoders["inputs"].decode([2, 3, text_encoder.EOS_ID, 0, 0]) == "ab"
    assert found.vocab_files() == ["vocab.parity.targets"]


def test_generation_is_repeated_and_resumed(usr_dir, folders):
    def contents() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in pathlib.Path(folders[0]).iterdir()}

    generate("usr_parity", folders)
    before = contents()
    generate("usr_parity", folders)
    next(pathlib.Path(folders[0]).glob("usr_parity-train-*")).unlink()
    generate("usr_parity", folders, num_workers=2)
    assert contents() == before


@pytest.mark.integration
def test_workers_import_the_user_directory(usr_dir, folders, monkeypatch):
    monkeypatch.setattr(generator, "_CHUNK", 20)
    found = generate("usr_letters", folders, num_workers=2)
    assert ("abc", "bbb") in decoded_pairs(found, folders[0], "train")
    assert found.vocab_files() == []


def test_encoded_samples_are_not_cleaned(usr_dir, folders):
    with pytest.raises(UserError, match="encodes its samples itself"):
        generate("usr_parity", folders, clean="duplicates")


# ---- encoded samples


class Encoding(text_problems.Text2TextProblem):
    samples: ClassVar[list] = [{"inputs": [2, 1], "targets": [3, 1]}]
    vocab_type = "character"

    def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        return iter(self.samples)

    @property
    def dataset_splits(self):
        return [{"split": problem.DatasetSplit.TRAIN, "shards": 1}]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([{"inputs": [2, 1]}], "expected lists of integers `inputs` and integers `targets`"),
        ([{"inputs": "text", "targets": [1]}], "expected lists of integers"),
        ([{"inputs": [2.5], "targets": [1]}], "expected lists of integers"),
        ([{"inputs": [2**63, 1], "targets": [1]}], "9223372036854775808 takes more than 64 bits"),
        ([{"inputs": [], "targets": [1]}], "inputs is empty"),
    ],
)
def test_samples_that_are_not_ids(upstream, monkeypatch, folders, samples, message):
    registry.register_problem("usr_encoding")(Encoding)
    monkeypatch.setattr(Encoding, "samples", samples)
    with pytest.raises(DataError, match=message):
        generate("usr_encoding", folders)


def test_ids_may_be_arrays(upstream, monkeypatch, folders):
    registry.register_problem("usr_encoding")(Encoding)
    sample = {"inputs": np.array([70, 1]), "targets": [np.int64(71), 1], "idx": [3]}
    monkeypatch.setattr(Encoding, "samples", [sample])
    found = generate("usr_encoding", folders)
    assert list(read_examples(found.existing_filepaths(folders[0], "train"))) == [
        {"inputs": [70, 1], "targets": [71, 1]}
    ]


class Filtering(text_problems.Text2TextProblem):
    """Leaves out long samples after encoding them as usual."""

    approx_vocab_size = 100
    inputs_prefix = "x "
    dataset_splits: ClassVar = [{"split": "train", "shards": 1}]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return [{"inputs": f"a{i}", "targets": "b " * i + "b"} for i in range(10)]

    def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        for sample in super().generate_encoded_samples(data_dir, tmp_dir, dataset_split):
            if len(sample["targets"]) <= 4:
                yield sample


def test_encoded_samples_of_the_base_class_may_be_filtered(upstream, folders):
    registry.register_problem("usr_filtering")(Filtering)
    found = generate("usr_filtering", folders)
    expected = [("x a0", "b"), ("x a1", "b b"), ("x a2", "b b b")]
    assert sorted(decoded_pairs(found, folders[0], "train")) == expected


# ---- problems that write their files


class Doubling(random_symbols.AlgorithmicProblem):
    num_symbols = 3
    train_size, dev_size, train_length, dev_length, num_shards = 6, 2, 4, 8, 2

    def generator(self, nbr_symbols, max_length, nbr_cases):
        for i in range(nbr_cases):
            symbols = [i % nbr_symbols] * max_length
            yield {"inputs": symbols, "targets": symbols + symbols}


def test_an_algorithmic_problem(upstream, folders):
    registry.register_problem("usr_doubling")(Doubling)
    found = generate("usr_doubling", folders)
    assert len(found.existing_filepaths(folders[0], "train")) == 2
    assert decoded_pairs(found, folders[0], "train")[:2] == [
        ("0 0 0 0", " ".join("00000000")),
        ("2 2 2 2", " ".join("22222222")),
    ]
    assert len(decoded_pairs(found, folders[0], "eval")) == 2
    assert found.get_feature_encoders(folders[0])["targets"].vocab_size == 5
    assert registry.problem("usr_doubling_rev").get_feature_encoders(folders[0])
    assert found.space_ids == (problem.SpaceID.DIGIT_0, problem.SpaceID.DIGIT_1)


class Noting(text_problems.Text2TextProblem):
    """Does something of its own before the files are generated."""

    vocab_type = text_problems.VocabType.CHARACTER
    dataset_splits = ({"split": problem.DatasetSplit.TRAIN, "shards": 2},)

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return [{"inputs": "a", "targets": "b"}] * 3

    def generate_data(self, data_dir, tmp_dir, unused_task_id):  # T2T gives all three
        (pathlib.Path(data_dir) / "note").touch()
        super().generate_data(data_dir, tmp_dir, unused_task_id)


def test_the_generation_of_text_may_be_extended(upstream, folders):
    registry.register_problem("usr_noting")(Noting)
    found = generate("usr_noting", folders)
    assert decoded_pairs(found, folders[0], "train") == [("a", "b")] * 3
    names = {path.name for path in pathlib.Path(folders[0]).glob("usr_noting-*")}
    assert names == {f"usr_noting-train-0000{number}-of-00002" for number in range(2)}
    assert pathlib.Path(folders[0], "note").is_file()


class InTasks(problem.Problem):
    multiprocess_generate = True
    num_generate_tasks = 3

    def prepare_to_generate(self, data_dir, tmp_dir):
        self.prepared = True

    def generate_data(self, data_dir, tmp_dir, task_id=-1):
        assert self.prepared
        paths = [
            *self.training_filepaths(data_dir, 2, shuffled=False),
            *self.dev_filepaths(data_dir, 1, shuffled=False),
        ]
        case = {"inputs": [task_id + 2, 1], "targets": [task_id + 2, 1]}
        generator_utils.generate_files([case] * 3, [paths[task_id]])
        generator_utils.shuffle_dataset([paths[task_id]])

    def hparams(self, defaults, unused_model_hparams):
        defaults.vocab_size = {"inputs": 5, "targets": 5}


def test_tasks_are_done_one_by_one(upstream, folders):
    registry.register_problem("usr_in_tasks")(InTasks)
    found = generate("usr_in_tasks", folders)
    assert decoded_pairs(found, folders[0], "train") == [("0", "0")] * 3 + [("1", "1")] * 3
    assert decoded_pairs(found, folders[0], "eval") == [("2", "2")] * 3
    assert not list(pathlib.Path(folders[0]).glob("*unshuffled*"))


# ---- vocabularies


class FromFile(text_problems.Text2textTmpdirTokens):
    dataset_splits: ClassVar = [{"split": "train", "shards": 1}, {"split": "eval", "shards": 1}]


def test_tokens_are_listed_by_the_user(upstream, folders, caplog):
    registry.register_problem("usr_tokens")(FromFile)
    for name in ("inputs.train", "targets.train", "inputs.eval", "targets.eval"):
        pathlib.Path(folders[1], f"{name}.txt").write_text("a b\n\nb c\n")
    pathlib.Path(folders[1], "vocab.txt").write_text("a\nb\n")
    with caplog.at_level(logging.WARNING):
        found = generate("usr_tokens", folders)
    assert "usr_tokens: dropped 1 pairs: one side is empty" in caplog.text
    pairs = decoded_pairs(found, folders[0], "train")
    assert sorted(pairs) == [("a b", "a b"), ("b <UNK>", "b <UNK>")]
    words = pathlib.Path(folders[0], "vocab.usr_tokens.tokens").read_text().split()
    assert words == ["<pad>", "<EOS>", "<UNK>", "a", "b"]


def test_records_that_t2t_may_have_made_with_tokens_alone_are_named(upstream, folders, caplog):
    registry.register_problem("usr_tokens")(FromFile)
    for name in ("inputs.train", "targets.train", "inputs.eval", "targets.eval", "vocab"):
        pathlib.Path(folders[1], f"{name}.txt").write_text("a\nb\n")
    found = generate("usr_tokens", folders)
    pathlib.Path(folders[0], "vocab.usr_tokens.tokens").write_text("a\nb\n")
    message = "usr_tokens.tokens does not begin with <pad> and <EOS>: the ids of its tokens are not"
    found.existing_filepaths(folders[0], "train")
    assert message not in caplog.text
    pathlib.Path(folders[0], "usr_tokens.fingerprint.json").unlink()
    found.existing_filepaths(folders[0], "train")
    assert message in caplog.text


def test_the_last_pairs_are_held_out_without_files_of_evaluation(upstream, folders):
    registry.register_problem("usr_tokens")(FromFile)
    words = [f"w{number}" for number in range(40)]
    for name in ("inputs.train.txt", "targets.train.txt", "vocab.txt"):
        pathlib.Path(folders[1], name).write_text("\n".join(words))
    found = generate("usr_tokens", folders)
    assert decoded_pairs(found, folders[0], "eval") == [("w38", "w38"), ("w39", "w39")]
    assert sorted(decoded_pairs(found, folders[0], "train")) == sorted((w, w) for w in words[:38])


def test_the_files_of_text_may_be_in_a_folder_that_a_class_names(upstream, tmp_path):
    from tensor2tensor.data_generators import text_problems

    for name in ("inputs.train", "targets.train", "inputs.eval", "targets.eval"):
        (tmp_path / f"{name}.txt").write_text("a\n")
    folder = {"SRC_REMOTE_DIR": str(tmp_path)}
    remote = type("Remote", (text_problems.Text2TextRemotedir,), folder)
    own = type("Own", (text_problems.Text2textTmpdir,), {"_tmp_dir_override": str(tmp_path)})
    for kind in (remote, own):
        samples = kind().generate_samples("", "nowhere", "train")
        assert list(samples) == [{"inputs": "a", "targets": "a"}]
    with pytest.raises(UserError, match=r"\(Text2TextRemotedir\) needs SRC_REMOTE_DIR"):
        text_problems.Text2TextRemotedir().generate_samples("", "", "train")


class OwnFile(text_problems.Text2TextProblem):
    def feature_encoders(self, data_dir):
        with open(f"{data_dir}/letters.json") as file:
            letters = json.load(file)
        return dict.fromkeys(("inputs", "targets"), text_encoder.ClassLabelEncoder(letters))


def test_a_file_that_an_encoder_opens_is_a_vocabulary_file():
    assert adapted(OwnFile()).vocab_files() == ["letters.json"]


def test_a_vocabulary_is_read_from_files_of_compile_data(upstream, folders):
    class Compiled(translate.TranslateProblem):
        approx_vocab_size = 200
        dataset_splits: ClassVar = [{"split": "train", "shards": 1}]

        def source_data_files(self, dataset_split):
            return [["", ("own.en", "own.de")]]

        def vocab_data_files(self):
            stem = f"{self.name}-compiled-train"
            return [["", [f"{stem}.lang1", f"{stem}.lang2"]]]

    registry.register_problem("usr_compiled")(Compiled)
    assert len(decoded_pairs(generate("usr_compiled", folders), folders[0], "train")) == 2


def test_the_lines_of_a_vocabulary_are_those_that_t2t_takes(golden, tmp_path):
    recorded = json.loads((golden / "vocab_build" / "builds.json").read_text())["line_sampling"]
    corpus = (golden / "vocab_build" / "corpus.txt").read_text(encoding="utf-8").split("\n")[:-1]
    text = "".join(f"{number} {line}\n" for number, line in enumerate(corpus))
    path = tmp_path / "numbered.txt.gz"
    path.write_bytes(gzip.compress(text.encode()))
    sources = [["", [path.name]]]
    for case in recorded["cases"]:
        budget = case["file_byte_budget"]
        taken = generator_utils.generate_lines_for_vocab(str(tmp_path), sources, budget)
        assert [int(line.split(" ")[0]) for line in taken] == case["line_numbers"]


# ---- what is refused


_OF_1_2 = r"needs generate_samples\(.* texts; generator, of T2T 1\.2, is not called"
_LABELLED = {"generate_samples": lambda *_: [{"inputs": "a", "label": 0}]}
_SPEC = {"example_reading_spec": lambda _: ({"inputs": None}, None)}
_UNKNOWN_SPLIT = {"dataset_splits": [{"split": s, "shards": 1} for s in ("train", "valid")]}


@pytest.mark.parametrize(
    ("base", "members", "message"),
    [
        ("ChoppedTextProblem", {}, r"\(Own\) needs train_text_filepaths"),
        ("Text2ClassProblem", _LABELLED, r"\(Own\) needs num_classes"),
        ("Text2TextProblem", _SPEC, "example_reading_spec"),
        ("Text2TextProblem", {}, r"\(Own\) needs generate_samples"),
        ("Text2TextProblem", _UNKNOWN_SPLIT, "'valid'; write one of 'train', 'eval', 'test'"),
        ("TranslateProblem", {}, r"needs source_data_files\(dataset_split\)"),
        ("Text2TextProblem", {"generator": print, "targeted_vocab_size": 2**8}, _OF_1_2),
        ("TranslateProblem", {"generator": print}, _OF_1_2),
    ],
)
def test_what_is_not_available_is_named(upstream, folders, base, members, message):
    kind = getattr(translate if base == "TranslateProblem" else text_problems, base)
    registry.register_problem("usr_refused")(type("Own", (kind,), members))
    with pytest.raises(UserError, match=message):
        generate("usr_refused", folders)


def test_examples_are_not_packed(upstream, folders, caplog):
    registry.register_problem("usr_packed")(type("Packed", (Noting,), {"packed_length": 256}))
    found = generate("usr_packed", folders)
    assert decoded_pairs(found, folders[0], "train") == [("a", "b")] * 3
    assert "problem usr_packed: packed_length has no effect here" in caplog.text
    paths = found.existing_filepaths(folders[0], "train")
    names = [f"{side}{end}" for side in ("inputs", "targets") for end in ("", "_segmentation")]
    packed = {name: [2, 1] for name in names}
    pathlib.Path(paths[0]).write_bytes(frame(serialize(packed)))
    with pytest.raises(UserError, match="00000-of-00002 has several texts in an example"):
        found.existing_filepaths(folders[0], "train")
    for path in paths:  # another number of files than the class names
        pathlib.Path(path).rename(path.replace("-of-00002", "-of-00003"))
    pathlib.Path(paths[1].replace("1-of-00002", "2-of-00003")).touch()
    with pytest.raises(UserError, match="00000-of-00003 has several texts in an example"):
        found.existing_filepaths(folders[0], "train")


@pytest.mark.parametrize(
    ("base", "members", "longest"),
    [
        ("ChoppedTextProblem", {"sequence_length": 1024}, 1024),
        ("Text2SelfProblem", {"packed_length": 512}, 512),
        ("Text2RealProblem", {"ntasks": 2}, 8192),
        ("Text2TextProblem", {}, None),
        ("ChoppedTextProblem", {"sequence_length": 256}, None),
        ("ChoppedTextProblem", {"sequence_length": 128}, None),  # none is longer
        ("Text2TextProblem", {"max_length": lambda self, model_hparams: 9}, None),
    ],
)
def test_a_greater_length_of_examples_in_t2t_is_named(upstream, caplog, base, members, longest):
    found = adapted(type("Own", (getattr(text_problems, base),), members)())
    ExampleReader.of(found, registry.hparams("transformer_base"))
    message = (
        f"problem own: T2T trains on examples of up to {longest} subwords (max_length of Own), "
        "t2t_lite on those of up to 256 (hparam max_length), and drops longer ones: set "
        f"--hparams=max_length={longest}"
    )
    assert (message in caplog.text) == (longest is not None) == ("drops longer" in caplog.text)


def test_modalities_other_than_symbols_are_refused(upstream, folders):
    class Images(text_problems.Text2TextProblem):
        vocab_type = "character"

        def hparams(self, defaults, unused_model_hparams):
            defaults.modality = {"inputs": ModalityType.IDENTITY}

    registry.register_problem("usr_images")(Images)
    with pytest.raises(UserError, match="inputs are 'identity'; only sequences of symbols"):
        registry.problem("usr_images").get_feature_encoders(folders[0])


def test_an_encoder_without_size_is_refused(upstream, folders):
    class Sizeless(problem.Problem):
        def generate_data(self, data_dir, tmp_dir, task_id=-1): ...

    registry.register_problem("usr_sizeless")(Sizeless)
    with pytest.raises(UserError, match=r"usr_sizeless: inputs .* without vocab_size"):
        registry.problem("usr_sizeless").get_feature_encoders(folders[0])


_SPLITS = [{"split": "train", "shards": 2}, {"split": "eval", "shards": 1}]


@pytest.mark.parametrize("own", [{"num_train_shards": 2}, {"dataset_splits": _SPLITS}])
def test_chopped_text_has_examples_of_equal_length(upstream, tmp_path, own):
    from tensor2tensor.data_generators import text_problems

    class Chopped(text_problems.ChoppedTextProblem):
        vocab_type = text_problems.VocabType.CHARACTER
        sequence_length = 4
        max_dev_chars = 5

        def train_text_filepaths(self, tmp_dir):
            return [f"{tmp_dir}/{name}" for name in "abc"]

        def dev_text_filepaths(self, tmp_dir):
            return [f"{tmp_dir}/a"]

    for name, text in (("a", "abcdefg"), ("b", "hijk"), ("c", "lm")):
        (tmp_path / name).write_text(text)
    problem = adapted(type("Chopped", (Chopped,), own)())
    data = str(tmp_path / "data")
    generator.generate_data(problem, data, str(tmp_path))

    def texts(split):
        examples = list(read_examples(problem.existing_filepaths(data, split)))
        assert {name for example in examples for name in example} == {"targets"}
        ids = [example["targets"] for example in examples]
        return ["".join(chr(i - 2) if i else "." for i in row) for row in ids]

    assert sorted(texts("train")) == ["abcd", "efgl", "hijk", "m..."]
    assert texts("eval") in (["abcd", "e..."], ["e...", "abcd"])
    assert problem.metrics == ["accuracy", "neg_log_perplexity"]
    assert list(problem.generate_text_for_vocab("", str(tmp_path))) == ["abcdefg", "hijk", "lm"]
