"""User directories of 2017 to 2020 from end to end: listed, generated, trained and decoded.

A folder of fixtures/usr_dirs holds a directory `usr`, written for these tests in the manner of that
time, and what lies in --data_dir (`data`) and --tmp_dir (`tmp`). A folder `x.zip` or `x.tgz` stands
for that archive.
"""

import dataclasses
import pathlib
import shutil
import sys
import types

import pytest

from support.commands import exit_code
from support.marks import by_name
from t2t_lite.bin import t2t_datagen, t2t_decoder, t2t_trainer

_DIRECTORIES = pathlib.Path(__file__).parents[2] / "fixtures" / "usr_dirs"
_SMALL = "--hparams=batch_size=256,batch_shuffle_size=0,num_hidden_layers=1"
_STEPS = ["--train_steps=3", "--eval_steps=1", _SMALL]
_SEARCH = "--decode_hparams=beam_size=1,extra_length=2"

_ARCHIVES = {".gz": "gztar", ".tgz": "gztar", ".zip": "zip"}


@dataclasses.dataclass(frozen=True)
class Case:
    """What the author of a directory runs.

    Attributes:
        folder: the directory's folder in fixtures/usr_dirs.
        problem: the problem; "": the directory registers none.
        hparams_set: the hparams set.
        model: the model.
        flag: a flag of data generation; "": none.
        generating: what data generation says, among other things.
        training: what training says.
        usr: the name of the directory.
        text: two lines to translate.
    """

    folder: str
    problem: str = ""
    hparams_set: str = "transformer_tiny"
    model: str = "transformer"
    flag: str = ""
    generating: str = ""
    training: str = ""
    usr: str = "usr"
    text: str = "a b c\nd e\n"

    def __str__(self) -> str:
        return "-".join(filter(None, (self.folder, self.problem, self.hparams_set, self.model)))


def _pack(folder: pathlib.Path) -> None:
    """Puts an archive in the place of a folder."""
    archive = shutil.make_archive(f"{folder}.new", _ARCHIVES[folder.suffix], folder)
    shutil.rmtree(folder)
    pathlib.Path(archive).rename(folder)


class Author:
    """Runs the commands as the author of a directory did; each returns what it writes."""

    def __init__(self, case: Case, folder: pathlib.Path, monkeypatch, capsys) -> None:
        self._case = case
        self._given = _DIRECTORIES / case.folder
        self._folder = folder
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        for name in ("data", "tmp"):
            (folder / name).mkdir()
            if (self._given / name).is_dir():
                shutil.copytree(self._given / name, folder / name, dirs_exist_ok=True)
        for path in (folder / "tmp").iterdir():
            if path.suffix in _ARCHIVES:
                _pack(path)

    def _run(self, command: types.ModuleType, flags: list[str], fails: bool = False) -> str:
        arguments = [f"--t2t_usr_dir={self._given / self._case.usr}", *flags]
        self._monkeypatch.setattr(sys, "argv", ["t2t", *arguments])
        code = exit_code(command.main, *arguments)
        written = "".join(self._capsys.readouterr())
        assert bool(code) == fails, written
        return written

    def lists(self) -> str:
        return self._run(t2t_trainer, ["--registry_help"])

    def generates(self, fails: bool = False) -> str:
        flags = [f"--problem={self._case.problem}", f"--data_dir={self._folder}/data"]
        flags += [f"--tmp_dir={self._folder}/tmp", "--num_workers=1"]
        flags += filter(None, [self._case.flag])
        return self._run(t2t_datagen, flags, fails)

    def trains(self, fails: bool = False) -> str:
        case = self._case
        flags = [f"--problem={case.problem}", f"--model={case.model}"]
        flags += [f"--hparams_set={case.hparams_set}", f"--data_dir={self._folder}/data"]
        flags += [f"--output_dir={self._folder}/run", *_STEPS, _SEARCH]
        return self._run(t2t_trainer, flags, fails)

    def decodes(self, text: str) -> list[bytes]:
        """Translates a text, on a machine that has the run folder only; returns the lines."""
        shutil.rmtree(self._folder / "data")
        source, target = self._folder / "in.txt", self._folder / "out.txt"
        source.write_text(text, encoding="utf-8")
        flags = [f"--output_dir={self._folder}/run", f"--decode_from_file={source}"]
        self._run(t2t_decoder, [*flags, f"--decode_to_file={target}", _SEARCH])
        *lines, rest = target.read_bytes().split(b"\n")  # not at other line ends, which may occur
        assert rest == b""
        return lines


@pytest.fixture
def author(upstream, request, tmp_path, monkeypatch, capsys) -> Author:
    """The author of the test's case."""
    return Author(request.getfixturevalue("case"), tmp_path, monkeypatch, capsys)


RUNNING = [
    Case("tf1_names", "uses_gfile"),
    Case("model_beside_problem", "mixed_problem"),
    Case("two_vocabularies", "two_checked_vocabs"),
    Case("own_members", "own_postprocess"),
    Case("own_members", "own_attributes"),
    Case("own_members", "own_metrics"),
    Case("missing_members", "metric_missing"),
    Case("missing_members", "modality_class"),
    Case("missing_members", "modality_tuple"),
    Case("star_import", "star_problem", "star_set"),
    Case(
        "sets_and_optimizers",
        "set_problem",
        "set_old_names",
        training="optimizer=Adam: an old name; write adam",
    ),
    Case(
        "sets_and_optimizers",
        "set_problem",
        "set_adafactor_old",
        training="optimizer=Adafactor: an old name; write adafactor",
    ),
    Case("sets_and_optimizers", "set_problem", "set_tpu"),
    Case("sets_and_optimizers", "set_problem", "set_prepend"),
    Case("sets_and_optimizers", "set_problem", "set_len"),
    Case("sets_and_optimizers", "set_problem", "set_ut", "universal_transformer"),
    Case("sets_and_optimizers", "set_problem", "set_lstm_base", "lstm_seq2seq_attention"),
    Case("reads_t2t_flags", "reads_flags", generating="FLAGS.problem = reads_flags"),
    Case("own_absl_flag", "own_flag", flag="--my_corpus=y.txt", generating="my_corpus = y.txt"),
    Case("own_argparse", "own_argparse", flag="--lang=de", generating="lang = de"),
    Case("unread_sources", "own_reader"),
    Case(
        "test_without_targets",
        "unlabelled_test",
        generating="unlabelled_test test: 200 targets are empty: written as EOS alone",
    ),
    Case(
        "metric_of_another_kind",
        "diary_lm",
        training="diary_lm: metrics without counterpart: rouge_2_fscore, rouge_L_fscore",
    ),
    Case("own_samples_of_a_data_set", "sentiment_shop", model="transformer_encoder"),
    Case("star_import_of_tensorflow", "pairs_by_size"),
    Case("labels_many", "tags", model="transformer_encoder"),
    Case("unknown_word_not_listed", "listed_words", text="n1 n3\nn0\n"),
    # ---- further ones
    Case("tf1_chat", "chat_small"),
    Case("tf1_records", "digits_backwards"),
    Case("model_package", "squares_in_words"),
    Case("model_and_its_set", "letters_to_case", "transformer_with_hints_tiny"),
    Case("hyphen", "proverbs", usr="usr-2018"),
    Case("package_beside", "counts_words"),
    Case("own_translate_ende", "translate_ende_ours"),
    Case("two_subword_vocabularies", "translate_apart"),
    Case("vocabularies_in_a_folder", "tags_of_words"),
    Case("own_generate_data", "sorts_letters"),
    Case("names_of_its_own", "halves_of_lines"),
    Case("batches_of_subwords_again", "counts_subwords_again"),
    Case("summaries", "first_words", "summaries_v1"),
    Case("recurrent_in_depth", "parentheses", "depth_adaptive", "universal_transformer"),
    Case("recurrent_in_depth", "parentheses", "time_luong", "lstm_seq2seq_attention"),
    Case("set_from_the_basics", "plus_one", "plus_one_small"),
    Case("flags_at_import", "sums_of_flags", flag="--spell", generating="up to 9 in True None"),
    Case(
        "argparse_at_import",
        "repeats_letters",
        flag="--alphabet=abcd",
        generating="alphabet abcd repeated 2",
    ),
    Case("encodes_its_samples", "enfr_as_bytes"),
    Case("preprocesses_examples", "short_sources"),
    Case("blind_test", "shared_task", generating="4 targets are empty: written as EOS alone"),
    Case("films", "sentiment_lowercase", model="transformer_encoder"),
    Case("vietnamese", "translate_envi_talks"),
    Case("memories", "translate_memories"),
    Case("addresses_with_queries", "translate_village", flag="--skip_bad", generating="1 bad line"),
    Case("word_chat", "chat_cornell_small", "chat_hparams"),
    Case("other_summaries", "summarize_village"),
    Case(
        "other_summaries",
        "lm_village",
        training="without counterpart: approx_bleu_score, edit_distance, word_error_rate, rouge_L",
    ),
    Case("letters_to_sounds", "grapheme_to_phoneme", "g2p_tiny", text="abc\ndea\n"),
    Case(
        "two_texts_two_labels",
        "farm_entailment",
        model="transformer_encoder",
        text="how many cows\tfarm 2 has cows\nx y\tz\n",
    ),
    Case("tags_before_sources", "translate_deen_iwslt8k_tagged", "transformer_iwslt_tiny"),
    Case("tags_before_sources", "translate_ende_own_pairs", "transformer_iwslt_tiny"),
    Case("spelling", "spelling_small"),
    Case("numbers_of_texts", "length_of_lines", model="transformer_regressor"),
    Case(
        "numbers_of_texts",
        "length_and_sign",
        model="transformer_regressor",
        training="length_and_sign: metrics without counterpart: accuracy",
    ),
    Case("numbers_of_texts", "encoded_numbers", model="transformer_regressor"),
]

REFUSED_DATA = [
    Case(
        "batch_of_examples",
        "counts_examples",
        generating="(batch_size_means_tokens is false): remove it, and set the hparam batch_size",
    ),
    Case(
        "missing_members",
        "modality_missing",
        generating="'modality_missing': targets are 'multi_label'; only sequences of symbols",
    ),
    Case(
        "module_of_same_name",
        "my_babi",
        generating="tensor2tensor.data_generators.babi_qa.BabiQaConcat is not available in "
        "t2t_lite; instead: copy the module into your user directory",
    ),
    Case(
        "operators_on_names",
        "counted",
        generating="tensor2tensor.data_generators.babi_qa._TASKS is not available in t2t_lite; "
        "instead: copy the module into your user directory; docs/t2t-names.md lists what is (used "
        "in ",
    ),
    # ---- further ones
    Case(
        "tf1_without_counterpart",
        "looks_up",
        generating="tensorflow.contrib.lookup.index_table_from_file is TensorFlow 1's and has no "
        "counterpart: write it with TensorFlow 2",
    ),
    Case(
        "batches_of_reviews",
        "reviews_in_batches",
        generating="(batch_size_means_tokens is false): remove it, and set the hparam batch_size",
    ),
    Case(
        "generators_of_2017",
        "translate_old_manner",
        generating="needs generate_samples(data_dir, tmp_dir, dataset_split), which yields texts",
    ),
]

REFUSED_TRAINING = [
    Case(
        "model_beside_problem",
        "mixed_problem",
        model="my_model",
        training="model 'my_model' does not run here: tensor2tensor.utils.t2t_model.T2TModel is "
        "not available in t2t_lite; instead: port the model: docs/extending.md",
    ),
    Case(
        "sets_and_optimizers",
        "set_problem",
        "set_basic",
        training="model 'transformer' needs a TransformerHParams: choose a set of this model",
    ),
    Case(
        "sets_and_optimizers",
        "set_problem",
        "set_basic",
        "lstm_seq2seq",
        training="weight_decay=1e-06: optimizer=adam does not support it; set optimizer=adam_w or "
        "weight_decay=0",
    ),
    # ---- further ones
    Case(
        "model_package",
        "squares_in_words",
        model="gated_net",
        training="model 'gated_net' does not run here: tensor2tensor.utils.t2t_model.T2TModel",
    ),
    Case(
        "model_and_its_set",
        "letters_to_case",
        "transformer_with_hints_tiny",
        "transformer_with_hints",
        training="model 'transformer_with_hints' does not run here: tensor2tensor.models",
    ),
]

# Problems and sets with a say in training or decoding, one of each kind.
_WITH_A_SAY = {
    *("own_postprocess", "own_metrics", "modality_tuple", "set_old_names", "own_flag"),
    *("letters_to_case", "translate_apart", "time_luong", "sentiment_lowercase"),
}
TRAINED = [case for case in RUNNING if _WITH_A_SAY & {case.problem, case.hparams_set}]
TRAINED_BY_NAME = by_name(*(case for case in RUNNING if case not in TRAINED))

WITHOUT_PROBLEM = [Case("module_beside"), Case("wrong_hint")]


def error(written: str) -> str:
    """Returns the line of the only error that a command has written."""
    (line,) = [line for line in written.splitlines() if ": error: " in line]
    return line


@pytest.mark.parametrize("case", [*RUNNING, *REFUSED_DATA, *REFUSED_TRAINING], ids=str)
def test_its_problem_is_listed(case, author):
    assert f"* {case.problem}\n" in author.lists()


@pytest.mark.parametrize("case", WITHOUT_PROBLEM, ids=str)
def test_it_is_imported(case, author):
    assert "Registry contents:" in author.lists()


@pytest.mark.integration
@pytest.mark.parametrize("case", RUNNING, ids=str)
def test_its_data_is_generated(case, author):
    assert case.generating in author.generates()


@pytest.mark.integration
@pytest.mark.parametrize("case", [*TRAINED, *TRAINED_BY_NAME], ids=str)
def test_it_trains_and_decodes(case, author, eagerly):
    author.generates()
    assert case.training in author.trains()
    assert len(author.decodes(case.text)) == 2


@pytest.mark.parametrize("case", REFUSED_DATA, ids=str)
def test_its_data_is_refused_in_one_line(case, author):
    assert case.generating in error(author.generates(fails=True))


@pytest.mark.parametrize("case", REFUSED_TRAINING, ids=str)
def test_its_training_is_refused_in_one_line(case, author):
    author.generates()
    assert case.training in error(author.trains(fails=True))
