import json

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_lite.data import records
from t2t_lite.data.batching import batching_scheme
from t2t_lite.data.data_statistics import count_examples
from t2t_lite.data.example_reader import ExampleReader, eval_examples, naming_bad_file
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import DataError
from t2t_lite.hparams.basic import BasicHParams

EXAMPLE = {"inputs": [11, 12, 13, 1], "targets": [21, 22, 1]}
IDS = st.lists(st.integers(2, 2**40), max_size=12).map(lambda ids: [*ids, 1])


def parse(reader, *examples):
    parsed = reader.parse(tf.constant([records.serialize(example) for example in examples]))
    return {name: ids.to_list() for name, ids in parsed.items()}


@pytest.mark.parametrize(
    ("options", "inputs", "targets"),
    [
        ({}, [11, 12, 13, 1], [21, 22, 1]),
        ({"reverse": True}, [21, 22, 1], [11, 12, 13, 1]),
        ({"copy": True}, [11, 12, 13, 1], [11, 12, 13, 1]),
        ({"reverse": True, "copy": True}, [21, 22, 1], [21, 22, 1]),
        ({"max_input_length": 3}, [11, 12, 1], [21, 22, 1]),
        ({"max_target_length": 1}, [11, 12, 13, 1], [1]),
        ({"reverse": True, "max_input_length": 2}, [21, 1], [11, 12, 13, 1]),
        ({"prepends_inputs": True}, [11, 12, 13, 1], [11, 12, 13, 1, 0, 21, 22, 1]),
        (
            {"prepends_inputs": True, "max_input_length": 2, "max_target_length": 4},
            [11, 1],
            [11, 1, 0, 1],
        ),
        ({"prepends_inputs": True, "reverse": True}, [21, 22, 1], [21, 22, 1, 0, 11, 12, 13, 1]),
    ],
)
def test_reverse_copy_and_cut(options, inputs, targets):
    assert parse(ExampleReader(**options), EXAMPLE) == {"inputs": [inputs], "targets": [targets]}


@pytest.mark.integration
@settings(max_examples=30)
@given(examples=st.lists(IDS, min_size=1, max_size=5), limit=st.integers(1, 14))
def test_cutting_keeps_the_eos_and_what_is_short_enough(examples, limit):
    reader = ExampleReader(max_input_length=limit)
    cut = parse(reader, *({"inputs": ids, "targets": ids} for ids in examples))
    assert cut["targets"] == examples
    for before, after in zip(examples, cut["inputs"], strict=True):
        assert after == (before if len(before) <= limit else [*before[: limit - 1], 1])


def test_what_the_model_joins_is_as_long_as_both_sides():
    reader = ExampleReader(counts_inputs=True)
    assert parse(reader, EXAMPLE) == {key: [ids] for key, ids in EXAMPLE.items()}
    records_of = tf.constant([records.serialize(EXAMPLE)])
    assert reader.lengths(records_of).numpy().tolist() == [[4, 4 + 1 + 3]]
    assert reader.of_evaluation().lengths(records_of).numpy().tolist() == [[4, 3]]


def test_reader_of_a_problem():
    class Toy(Text2TextProblem):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            return []

    hparams = BasicHParams(max_input_seq_length=5, max_target_seq_length=6)
    assert ExampleReader.of(Toy(), hparams) == ExampleReader(False, False, 5, 6)
    assert ExampleReader.of(Toy(True, True), hparams) == ExampleReader(True, True, 5, 6)


def write(path, *lengths):
    """Writes one example for each (source, target) length and returns the path."""
    records.write_examples(
        path, ({"inputs": [7] * (s - 1) + [1], "targets": [8] * (t - 1) + [1]} for s, t in lengths)
    )
    return str(path)


def test_statistics(tmp_path):
    paths = [
        write(tmp_path / "a", (3, 4), (11, 2), (2, 2)),
        write(tmp_path / "b", (10, 10), (1, 30)),
    ]
    scheme = batching_scheme(100, 10, 4, 1.5, min_length=3)
    statistics = count_examples(paths, scheme, ExampleReader())
    assert (statistics.examples, statistics.dropped_long, statistics.dropped_short) == (2, 2, 1)
    assert (statistics.source_tokens, statistics.target_tokens) == (3 + 10, 4 + 10)
    assert (statistics.longest, statistics.complete) == (30, True)
    assert str(statistics) == (
        "2 examples with 13 source and 14 target subwords, the longest with 30; 2 dropped above "
        "max_length=10; 1 dropped below min_length=3"
    )
    every = batching_scheme(100, 10, 4, 1.5, drop_long_sequences=False)
    assert str(count_examples(paths, every, ExampleReader())) == (
        "5 examples with 27 source and 48 target subwords, the longest with 30"
    )
    # What is cut is not dropped, and a copy has no long target.
    assert count_examples(paths, scheme, ExampleReader(copy=True)).dropped_long == 1
    cut = count_examples(paths, scheme, ExampleReader(max_input_length=9, max_target_length=8))
    assert (cut.dropped_long, cut.longest) == (0, 9)


def test_statistics_of_the_first_records(tmp_path):
    paths = [write(tmp_path / name, (3, 4), (5, 5)) for name in "abc"]
    scheme = batching_scheme(100, 10, 4, 1.5)
    statistics = count_examples(paths, scheme, ExampleReader(), limit=3)
    assert (statistics.examples, statistics.complete) == (4, False)
    assert str(statistics).startswith("of the first 4 records: 4 examples")
    assert count_examples(paths, scheme, ExampleReader(), limit=6).complete


@pytest.mark.parametrize("lengths", [[], [(11, 3), (4, 12)]])
def test_no_example_left(tmp_path, lengths):
    path = write(tmp_path / "a", *lengths)
    with pytest.raises(DataError, match=r"have no usable example.*max_length=10") as error:
        count_examples([path], batching_scheme(100, 10, 4, 1.5), ExampleReader())
    assert path in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("broken", [{"inputs": [5, 1]}, {"inputs": [5, 1], "targets": []}])
def test_a_missing_side_is_named(tmp_path, broken):
    path = tmp_path / "a"
    records.write_examples(path, [*[EXAMPLE] * 1500, broken, EXAMPLE])
    with pytest.raises(DataError, match="a, record 1501: inputs or targets are missing"):
        count_examples([str(path)], batching_scheme(100, 10, 4, 1.5), ExampleReader())


def test_labels_as_t2t_writes_them_are_an_error(tmp_path):
    path = tmp_path / "a"
    labelled = {"inputs": [5, 1], "targets": [3, 1]}
    records.write_examples(path, [labelled, {"inputs": [5, 1], "targets": [1]}])
    scheme = batching_scheme(100, 10, 4, 1.5)
    with pytest.raises(DataError, match="a, record 2: a label without EOS, as T2T writes it"):
        count_examples([str(path)], scheme, ExampleReader(has_labels=True))
    assert count_examples([str(path)], scheme, ExampleReader()).examples == 2


def flip_byte(contents):
    return contents[:-20] + bytes([contents[-20] ^ 1]) + contents[-19:]


RECORD_BYTES = records.FRAME_BYTES + len(records.serialize(EXAMPLE))
DAMAGES = {
    "flipped byte": flip_byte,
    "cut in the data": lambda contents: contents[:-9],
    "cut in the frame": lambda contents: contents[: -RECORD_BYTES + 5],
    "text": lambda _: b"not a TFRecord file, but long enough to look like one",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named(tmp_path, damage):
    good, bad = tmp_path / "good", tmp_path / "bad"
    for path in (good, bad):
        records.write_examples(path, [EXAMPLE] * 5)
    bad.write_bytes(DAMAGES[damage](bad.read_bytes()))
    number = 1 if damage == "text" else 5
    with pytest.raises(DataError, match=f"bad, record {number}"):
        count_examples([str(good), str(bad)], batching_scheme(100, 10, 4, 1.5), ExampleReader())


def test_a_record_other_than_an_example_is_named(tmp_path):
    path = tmp_path / "a"
    written = [records.serialize(EXAMPLE), b"\xff\xff no protocol buffer"]
    path.write_bytes(b"".join(map(records.frame, written)))
    with pytest.raises(DataError, match="a, record 2"):
        eval_examples([str(path)], ExampleReader())


def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    def refuse(path, mode):
        raise PermissionError(13, "Permission denied", path)

    path = tmp_path / "a"
    path.touch()
    monkeypatch.setattr(records, "open", refuse, raising=False)
    with pytest.raises(PermissionError, match=r"/a'$"), naming_bad_file([str(path)]):
        raise tf.errors.PermissionDeniedError(None, None, "no")


def test_other_errors_pass_unchanged(tmp_path):
    path = write(tmp_path / "a", (3, 4))
    with pytest.raises(tf.errors.InvalidArgumentError), naming_bad_file([path]):
        tf.reshape(tf.zeros([3]), [2])


def test_eval_examples_keep_the_order_of_the_files(tmp_path):
    examples = [{"inputs": [i, 1], "targets": [i, i, 1]} for i in range(2, 9)]
    paths = [str(tmp_path / "z"), str(tmp_path / "a")]
    records.write_examples(paths[0], examples[:3])
    records.write_examples(paths[1], examples[3:])
    expected = [(example["inputs"], example["targets"]) for example in examples]
    assert eval_examples(paths, ExampleReader()) == expected
    assert eval_examples(paths, ExampleReader(), limit=4) == expected[:4]
    assert eval_examples(paths, ExampleReader(reverse=True), limit=1) == [expected[0][::-1]]


def test_reads_what_t2t_wrote(golden):
    recorded = json.loads((golden / "datagen_text2text_tmpdir.json").read_text(encoding="utf-8"))
    path = golden / "tfrecord" / "text2text_tmpdir-dev-00000-of-00001"
    pairs = eval_examples([str(path)], ExampleReader())
    expected = [(example["inputs"], example["targets"]) for example in recorded["dev"]]
    assert expected
    assert pairs == expected


@pytest.mark.parametrize(
    ("feature", "kind"),
    [
        (tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a cat"])), "bytes"),
        (tf.train.Feature(float_list=tf.train.FloatList(value=[2.5, 1.0])), "floats"),
    ],
)
def test_features_that_are_no_ids_are_named(tmp_path, feature, kind):
    ids = tf.train.Feature(int64_list=tf.train.Int64List(value=[2, 1]))
    path = str(tmp_path / "x")
    with tf.io.TFRecordWriter(path) as writer:
        for inputs in (ids, feature):
            features = tf.train.Features(feature={"inputs": inputs, "targets": ids})
            writer.write(tf.train.Example(features=features).SerializeToString())
    message = rf"x, record 2: inputs are {kind}, not ids \(int64\)"
    with pytest.raises(DataError, match=message):
        eval_examples([path], ExampleReader())
    with pytest.raises(DataError, match=message):
        count_examples([path], batching_scheme(64, 16, 8, 1.1), ExampleReader())
