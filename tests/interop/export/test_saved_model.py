"""Exported searches output what the decoder outputs, in a process with only TensorFlow."""

import errno
import importlib
import json
import math
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from support.rounding import assert_close
from support.tensorflow_text import needs_tensorflow_text
from support.terms import log_prob_terms
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import UsageError, UserError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.interop.export import saved_model
from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.search.beam_search import greedy_search
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.search_loop import Hypotheses
from t2t_lite.search.tree_grammar import TreeGrammar

LINES = [
    "plain words",
    "",
    "  spaces around\u2003",
    "\t",
    "\u0085\u2028",
    "next\u0085line and\u2028separator",
    "form\x0cfeed \x00 and NUL",
    "\x00",
    "carriage\rreturn and\ttab",
    "\ufeffbyte order mark",
    "▁ real ▂ blocks ▅",
    "日本語 😀 e\u0301 \ufffe \U0010ffff",
    "many words " * 60,
    "long" * 12_500,
]
NOT_UTF8 = b"half a \xe2\x82, a \xff, \xed\xa0\x80"

# The example in an export's README, then the outputs for the inputs in a file.
SCRIPT = """
import json, re, sys
sys.modules["t2t_lite"] = None  # importing it is an error
answers = []
for question in json.load(sys.stdin):
    readme = open(question["kind"] + "/1/README.md", encoding="utf-8").read()
    exec(re.search(r"^```python\\n(.*?)^```", readme, re.M | re.S)[1])
    inputs = question["inputs"]
    if isinstance(inputs[0], str):
        inputs = [text.encode("latin-1") for text in inputs]
    found = model(inputs=tf.constant(inputs))
    outputs = found["outputs"].numpy().tolist()
    if isinstance(inputs[0], bytes):
        outputs = [[text.decode() for text in row] for row in outputs]
    has_text_operations = "tensorflow_text" in sys.modules
    answers.append([outputs, found["scores"].numpy().tolist(), has_text_operations])
print(json.dumps(answers))
"""
CASES = [
    ("transformer", "text2text_tmpdir_bpe", "extra_length=10,return_beams=true,batch_size=4", True),
    pytest.param(
        "lstm_seq2seq_attention",
        "translate_ende_wmt_characters",
        "beam_size=2,extra_length=5,return_beams=true,max_input_size=9",
        False,
        marks=pytest.mark.slow,  # its best outputs are compared in this process, too
    ),
]


def export(run, export_dir, changes: str = "") -> None:
    hparams = DecodeHParams.of(run.problem, changes)
    saved_model.export(run, str(run.folder / "model.ckpt-7"), str(export_dir), hparams)


def padded(rows: list[list[int]]) -> list[list[int]]:
    return tf.ragged.constant(rows, tf.int32).to_tensor().numpy().tolist()


def without_padding(ids: list[int]) -> list[int]:
    while ids and ids[-1] == 0:
        ids = ids[:-1]
    return ids


@needs_tensorflow_text
@pytest.mark.integration
@pytest.mark.parametrize(("model", "problem", "changes", "needs_text"), CASES)
def test_another_process_gives_what_the_decoder_gives(
    make_run, tmp_path, model, problem, changes, needs_text
):
    run = make_run(model, problem)
    export(run, tmp_path, changes)
    hparams = DecodeHParams.of(run.problem, changes)
    decoder = Decoder.from_run(run, hparams=hparams, long_input="truncate")
    sources = decoder.text.encode([*LINES, NOT_UTF8.decode("utf-8", "replace")])
    ids = padded([source.ids for source in sources])
    texts = [line.decode("latin-1") for line in [*map(str.encode, LINES), NOT_UTF8]]
    questions = [{"kind": "ids", "inputs": ids}, {"kind": "translate", "inputs": texts}]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        input=json.dumps(questions),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (rows, scores, has_text), others = json.loads(done.stdout.splitlines()[-1])
    assert not has_text
    assert others[1:] == [scores, needs_text]
    found = decoder.decode(sources)
    shown = [
        (score, beam.score)
        for row, beams in zip(scores, found, strict=True)
        for score, beam in zip(row, beams, strict=False)  # a row has columns for every beam
    ]
    steps = 40 + 10  # of the longest source, and `extra_length`
    assert_close(
        *zip(*shown, strict=True), terms=steps * log_prob_terms(decoder.engine.models[0], steps)
    )
    for beams, ids, texts in zip(found, rows, others[0], strict=True):
        count = len(beams)
        assert [without_padding(i) for i in ids[:count]] == [beam.ids for beam in beams]
        assert texts[:count] == [beam.output.text for beam in beams]
        assert not any(texts[count:])


class Echo:
    """A search whose outputs are its inputs, or its prompts."""

    def __init__(self, takes_inputs: bool = True) -> None:
        self.takes_inputs = takes_inputs
        self.weights = ()
        self.hparams = TransformerHParams(max_length=4)

    def in_graph(self, inputs, limits, prefixes=None, given=None):
        ids = inputs if prefixes is None else tf.concat([prefixes, prefixes], axis=1)
        return Hypotheses(ids[:, None], tf.ones([tf.shape(inputs)[0], 1]))


@pytest.mark.integration
@pytest.mark.parametrize("takes_inputs", [True, False])
def test_padding_may_be_anywhere(takes_inputs):
    model = Echo(takes_inputs)
    module = saved_model.IdsModule(model, model, DecodeHParams(beam_size=1))
    rows = [[5, 6, 7], [8], [], [9, 5, 6, 7, 8]]
    if takes_inputs:
        rows = [[*row, 1] if row else [] for row in rows]
    after, before = (
        keras.utils.pad_sequences(rows, maxlen=9, padding=side) for side in ("post", "pre")
    )
    between = np.insert(after, [1, 3], 0, axis=1)
    for inputs in (before, between):
        for name, expected in module(after).items():
            assert np.array_equal(module(inputs)[name], expected), name


class Counting(Echo):
    """A search whose scores are the number of sentences that it was given together."""

    def in_graph(self, inputs, limits, prefixes=None, given=None):
        ids, scores = super().in_graph(inputs, limits, prefixes)
        return Hypotheses(ids, scores * tf.cast(tf.shape(inputs)[0], tf.float32))


@pytest.mark.integration
@pytest.mark.parametrize(("size", "counts"), [(0, [5] * 5), (2, [2, 2, 2, 2, 1])])
def test_a_batch_has_as_many_sentences_as_asked_for(size, counts):
    model = Counting()
    module = saved_model.IdsModule(model, model, DecodeHParams(beam_size=1, batch_size=size))
    assert module(np.full([5, 3], 7))["scores"].numpy().tolist() == counts


class Longest(Echo):
    """A search whose outputs are as long as their limits."""

    def in_graph(self, inputs, limits, prefixes=None, given=None):
        shape = [tf.size(limits), 1, tf.reduce_max(limits)]
        return Hypotheses(tf.fill(shape, 7), tf.zeros(shape[:2]))


@pytest.mark.parametrize(
    ("takes_inputs", "start"), [(True, ()), (True, (5, 6)), (False, ())], ids=str
)
def test_outputs_have_room_for_eos(takes_inputs, start):
    model = Longest(takes_inputs)
    hparams = DecodeHParams(beam_size=1, length_factor=0, extra_length=0)
    module = saved_model.IdsModule(model, model, hparams, start)
    assert module(np.full([2, 3], 8))["outputs"].numpy().tolist() == [[7], [7]]


@pytest.mark.integration
def test_best_outputs_alone_have_no_column_for_others(greedy_export):
    decoder, folder = greedy_export
    translate = tf.saved_model.load(str(folder / "translate" / "1")).signatures["serving_default"]
    for lines in ([], [""], ["x", "", "yz"]):
        found = translate(inputs=tf.constant(lines, tf.string))
        texts = [text.decode() for text in found["outputs"].numpy()]
        assert texts == Translator(decoder)(lines)
        assert [score == 0 for score in found["scores"]] == [not line for line in lines]


@pytest.mark.integration
def test_the_tables_of_a_search_are_saved(tmp_path):
    """The tables of the tags of words, which the search among trees needs."""

    class Uniform:
        """All logits are equal."""

        weights = ()
        hparams = TransformerHParams()
        takes_inputs = True

        def start_decoding(self, inputs, beams, length):
            return DecodeState(inputs, tf.zeros([tf.shape(inputs)[0], beams]))

        def decode_step(self, ids, step, state):
            return tf.tile(tf.zeros_like(ids, tf.float32)[..., None], [1, 1, len(symbols)]), state

    symbols = ["<pad>", "<EOS>", "S", "/S", "NN", "VB"]
    lexicon = {"": ["NN", "VB"], "cat": ["NN"], "runs": ["VB"]}
    grammar = TreeGrammar(Uniform(), symbols, lexicon, ["", "", " ", "cat", "runs"], 5)
    hparams = DecodeHParams(beam_size=1, extra_length=5)
    module = saved_model.IdsModule(Uniform(), greedy_search(grammar), hparams)
    tf.saved_model.save(module, str(tmp_path), signatures=module.__call__)
    search = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    found = search(inputs=tf.constant([[3, 2, 4, 2, 3, 1]]))["outputs"].numpy()[0]
    assert symbols.index("<EOS>") not in found
    tags = [symbols[i] for i in found if symbols[i] in ("NN", "VB")]
    assert tags == ["NN", "VB", "NN"]


class TestVersions:
    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch, make_run):
        """Nothing is traced; what is saved is a file."""

        def save(module, folder, signatures):
            with open(f"{folder}/saved_model.pb", "w") as file:
                file.write("saved")

        monkeypatch.setattr(tf.saved_model, "save", save)
        self.run = make_run("lstm_seq2seq_attention", "translate_ende_wmt_characters")

    def names(self, folder) -> set[str]:
        return {str(path.relative_to(folder)) for path in folder.glob("*/*")}

    def test_an_export_is_never_written_over(self, tmp_path):
        for last in range(1, 4):
            export(self.run, tmp_path)
            expected = {f"{kind}/{n}" for kind in ("ids", "translate") for n in range(1, last + 1)}
            assert self.names(tmp_path) == expected
            for path in tmp_path.glob("*/*/saved_model.pb"):
                is_new = path.parent.name == str(last)
                assert path.read_text() == ("saved" if is_new else "kept")
                path.write_text("kept")

    def test_both_kinds_get_the_number_after_the_greatest(self, tmp_path):
        (tmp_path / "translate" / "8").mkdir(parents=True)
        (tmp_path / "ids" / "notes").mkdir(parents=True)
        export(self.run, tmp_path)
        assert self.names(tmp_path) == {"translate/8", "ids/notes", "ids/9", "translate/9"}

    def test_a_failure_leaves_nothing(self, tmp_path, monkeypatch):
        def fail(module, folder, signatures):
            raise OSError(errno.ENOSPC, "the disk is full")

        monkeypatch.setattr(tf.saved_model, "save", fail)
        with pytest.raises(OSError, match=rf"full: '{tmp_path}/ids/1'"):
            export(self.run, tmp_path)
        assert not self.names(tmp_path)

    def test_problems_without_operations_are_exported_as_ids(self, make_run, tmp_path, caplog):
        export(make_run("transformer", "text2text_tmpdir"), tmp_path)
        assert self.names(tmp_path) == {"ids/1"}
        assert any("exporting only 'ids'" in message for message in caplog.messages)

    @pytest.mark.parametrize(
        ("size", "used"), [(-1, "the first 40"), (9, "the first 9"), (0, "all")]
    )
    def test_the_readme_says_how_much_of_a_source_is_used(self, tmp_path, size, used):
        export(self.run, tmp_path, f"max_input_size={size}")
        readme = (tmp_path / "ids" / "1" / "README.md").read_text(encoding="utf-8")
        assert f"and uses {used} subwords of each" in readme

    def test_drawing_at_random_is_refused(self, tmp_path):
        with pytest.raises(UsageError, match="sampling_method=random"):
            export(self.run, tmp_path, "sampling_method=random")
        assert not self.names(tmp_path)

    def test_xla_is_refused(self, tmp_path):
        with pytest.raises(UsageError, match="xla_compile: an exported search is one graph"):
            export(self.run, tmp_path, "xla_compile=true")
        with pytest.raises(UsageError, match="replace_unk: an exported search returns no attent"):
            export(self.run, tmp_path, "replace_unk=true")
        assert not self.names(tmp_path)

    def test_a_checkpoint_that_is_not_there(self, tmp_path):
        with pytest.raises(UserError, match="gone does not exist"):
            saved_model.export(self.run, "gone", str(tmp_path), DecodeHParams())
        assert not self.names(tmp_path)


# ---- classifiers and language models

TEXTS = ["plain words", "", "  no break\u2003", "many words " * 6, "日本"]


@pytest.mark.integration
def test_a_classifier_gives_the_labels_that_the_decoder_gives(make_run, tmp_path):
    run = make_run("transformer_encoder", "sentiment_imdb_characters")
    export(run, tmp_path, "beam_size=2,extra_length=0,return_beams=true")
    hparams = DecodeHParams.of(run.problem, "beam_size=2,extra_length=0,return_beams=true")
    decoder = Decoder.from_run(run, hparams=hparams)
    wanted = decoder.decode(decoder.text.encode(TEXTS))
    translate = tf.saved_model.load(tmp_path / "translate" / "1").signatures["serving_default"]
    found = translate(inputs=tf.constant(TEXTS))
    terms = log_prob_terms(decoder.engine.models[0], max(len(text.encode()) for text in TEXTS) + 1)
    labels = set()
    for row, scores, beams in zip(found["outputs"], found["scores"], wanted, strict=True):
        texts = [text.decode() for text in row.numpy() if text]
        assert texts == [hypothesis.output.text for hypothesis in beams]
        if beams:
            assert_close(scores, [h.score for h in beams], terms)
            assert_close(sum(math.exp(h.score) for h in beams), 1.0, terms)
        labels.update(texts)
    assert labels == {"neg", "pos"}


@needs_tensorflow_text
@pytest.mark.integration
def test_a_language_model_continues_prompts_as_the_decoder_does(make_run, tmp_path):
    importlib.import_module("tensorflow_text")  # the operations of the text signature
    run = make_run("attention_lm", "text2self_tmpdir_bpe")
    export(run, tmp_path, "beam_size=2,extra_length=4,return_beams=true")
    hparams = DecodeHParams.of(run.problem, "beam_size=2,extra_length=4,return_beams=true")
    decoder = Decoder.from_run(run, hparams=hparams)
    sources = decoder.text.encode(TEXTS)
    wanted = decoder.decode(sources)
    assert {len(beams[0].ids) for beams in wanted} != {0}

    translate = tf.saved_model.load(tmp_path / "translate" / "1").signatures["serving_default"]
    found = translate(inputs=tf.constant(TEXTS))
    for row, beams in zip(found["outputs"], wanted, strict=True):
        assert [text.decode() for text in row.numpy()] == [h.output.text for h in beams]
    scores = [[hypothesis.score for hypothesis in beams] for beams in wanted]
    steps = max(len(source.prefix) for source in sources) + 4  # and `extra_length`
    assert_close(
        found["scores"], scores, terms=steps * log_prob_terms(decoder.engine.models[0], steps)
    )

    ids = tf.saved_model.load(tmp_path / "ids" / "1").signatures["serving_default"]
    rows = padded([list(source.prefix) for source in sources])
    for row, beams in zip(ids(inputs=tf.constant(rows))["outputs"].numpy(), wanted, strict=True):
        assert [id_ for id_ in row[0].tolist() if id_] == beams[0].ids
    readme = (tmp_path / "translate" / "1" / "README.md").read_text()
    assert "a prompt, perhaps empty" in readme
