"""A run folder is opened again with the settings it was created with, or refused."""

import contextlib
import dataclasses
import json

import pytest

from support.mixtures import FRENCH, GERMAN, generate, toys
from t2t_lite import registry
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.loading import find_models
from t2t_lite.errors import UsageError, UserError
from t2t_lite.runs import opening, run_creation, run_folder, selection
from t2t_lite.runs.run_settings import RunSettings

SMALL = "num_hidden_layers=1,hidden_size=8"
FLAGS = {"problem": "algorithmic_reverse_decimal40", "random_seed": 1}


def make_run(
    folder, model="transformer", hparams_set="transformer_test", overrides=SMALL, **changes
):
    where = {"data_dir": str(folder), "output_dir": str(folder)}
    flags = FLAGS | where | {"model": model, "hparams_set": hparams_set} | changes
    hparams = registry.hparams(hparams_set).override(overrides).freeze()
    run = opening.open_for_training(RunSettings.of(flags), hparams, 1)
    (folder / "model.ckpt-0.index").touch()  # or the run would give way to other settings
    return run


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"overrides": "num_hidden_layers=1,hidden_size=16"}, "hidden_size: 8 != 16"),
        ({"hparams_set": "transformer_tiny"}, "hparams_set: 'transformer_test' != "),
        (
            {"model": "lstm_seq2seq_attention", "hparams_set": "lstm_attention"},
            "model: 'transformer' != 'lstm_seq2seq_attention'",
        ),
    ],
)
def test_another_run_in_an_old_folder_is_refused_and_changes_nothing(tmp_path, change, message):
    make_run(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match="holds a run with other settings") as error:
        make_run(tmp_path, **change)
    assert message in str(error.value)
    remedy = "Choose another --output_dir, or use the old settings; a run there can start from "
    assert f"{remedy}these weights: --warm_start_from={tmp_path}" in str(error.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


SPELLED = f"{GERMAN}:0.50..1.0+{FRENCH}:.5..2"


@pytest.mark.parametrize(
    "again",
    [
        SPELLED,
        f"{GERMAN}:0.5..1+{FRENCH}:0.5..2.0",
        f" {GERMAN} : 5e-1..1e0 + {FRENCH}:.50..02 ",
    ],
)
def test_a_mixture_goes_on_however_its_weights_are_spelled(tmp_path, again):
    with toys():
        generate(tmp_path, f"{GERMAN}+{FRENCH}")
        first = make_run(tmp_path, problem=SPELLED)
        run = make_run(tmp_path, problem=again)
        assert run.problem.name == first.problem.name
        spelled = dataclasses.replace(run.settings, problem=SPELLED)
        opening.open_for_evaluation(spelled, run.hparams)
        (found,) = find_models(DecoderConfig(output_dir=str(tmp_path), problem=again))
        assert found.run.problem.name == run.problem.name
        for other in (SPELLED.replace(".5", ".6"), f"{GERMAN}:.5+{FRENCH}:.5"):
            with pytest.raises(UserError, match=r"problem: .*:0\.5\.\.1\+.* != "):
                make_run(tmp_path, problem=other)
            with pytest.raises(UsageError, match=r"was trained with .*: leave the flag out"):
                find_models(DecoderConfig(output_dir=str(tmp_path), problem=other))


def test_the_suffixes_of_a_problem_have_any_order(tmp_path):
    make_run(tmp_path, problem="algorithmic_reverse_decimal40_copy_rev")
    run = make_run(tmp_path, problem="algorithmic_reverse_decimal40_rev_copy")
    (found,) = find_models(
        DecoderConfig(output_dir=str(tmp_path), problem="algorithmic_reverse_decimal40_copy_rev")
    )
    assert found.run.problem.name == run.problem.name
    with pytest.raises(UserError, match="problem: 'algorithmic_reverse_decimal40_rev_copy' != "):
        make_run(tmp_path, problem="algorithmic_reverse_decimal40_rev")


def test_hparams_go_on_however_they_are_spelled(tmp_path):
    spelled = "learning_rate_schedule=constant*linear_warmup,suppressed_ids=2+7,relu_dropout=.10"
    make_run(tmp_path, overrides=f"{SMALL},frozen=encoder+embeddings,{spelled}")
    again = "learning_rate_schedule=constant * linear_warmup,suppressed_ids=7+2,relu_dropout=1e-1"
    make_run(tmp_path, overrides=f"frozen=embeddings+encoder,{again},{SMALL}")
    with pytest.raises(UserError, match=r"frozen: 'embeddings\+encoder' != 'encoder'"):
        make_run(tmp_path, overrides=f"{SMALL},frozen=encoder,{spelled}")


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        *(({"random_seed": None}, True), ({"random_seed": 1}, True), ({"random_seed": 2}, False)),
        *(({"parts": 1}, True), ({"parts": 2}, False)),
    ],
)
def test_a_run_that_has_not_started_gives_way_to_another(tmp_path, change, is_kept):
    run = make_run(tmp_path)
    assert run.parts == 1
    (tmp_path / "model.ckpt-0.index").unlink()
    opening.forget_unstarted(dataclasses.replace(run.settings, **change), run.hparams)
    assert run_folder.is_run(tmp_path) == is_kept


@pytest.mark.parametrize(("seed", "message"), [(None, ""), (1, ""), (2, "--random_seed=1, not 2")])
def test_an_evaluation_has_the_seed_of_its_run_and_changes_nothing(tmp_path, seed, message):
    run = make_run(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    settings = dataclasses.replace(run.settings, random_seed=seed)
    refused = pytest.raises(UserError, match=message) if message else contextlib.nullcontext()
    with refused:
        assert opening.open_for_evaluation(settings, run.hparams).settings == run.settings
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(("parts", "replicas", "fits"), [(8, 2, True), (8, 8, True), (1, 8, False)])
def test_a_run_grows_onto_devices_that_share_its_parts(tmp_path, parts, replicas, fits):
    hparams = registry.hparams("transformer_test")
    settings = dataclasses.replace(make_run(tmp_path).settings, parts=parts)
    run_creation.create_run(settings, hparams, str(tmp_path))
    remedy = rf"another run from its weights \(--warm_start_from={tmp_path}, "
    with contextlib.nullcontext() if fits else pytest.raises(UserError, match=remedy):
        assert opening.seed_and_parts(str(tmp_path), None, hparams, replicas) == (1, parts)


def test_the_folder_of_a_search_becomes_no_run(tmp_path):
    (tmp_path / "search.json").write_text("{}")
    with pytest.raises(UserError, match=r"holds a search .*: continue it with --hparams_range, or"):
        make_run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["search.json"]


def test_a_missing_source_of_weights_is_named_before_there_is_a_run(tmp_path):
    flags = FLAGS | {"data_dir": str(tmp_path), "output_dir": str(tmp_path / "run")}
    flags |= {"model": "transformer", "hparams_set": "transformer_test"}
    hparams = registry.hparams("transformer_test")
    settings = RunSettings.of({**flags, "warm_start_from": "/no/run"})
    with pytest.raises(UserError, match="--warm_start_from=/no/run does not exist"):
        opening.open_for_training(settings, hparams, 1)
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_of_a_run_that_has_not_started_gives_way_to_another(tmp_path):
    run = make_run(tmp_path)
    (tmp_path / "model.ckpt-0.index").unlink()
    problem = registry.problem("text2text_tmpdir_tokens")
    settings = dataclasses.replace(run.settings, problem=problem.name)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / run_folder.FLAGS).write_text(settings.to_json())
    (tmp_path / "run" / run_folder.HPARAMS).write_text(run.hparams.to_json())
    (name,) = problem.vocab_files()
    (tmp_path / name).write_text("<UNK>\nnew\n")
    (tmp_path / "run" / name).write_text("<UNK>\nold\n")
    settings = dataclasses.replace(settings, output_dir=str(tmp_path / "run"))
    opening.open_for_training(settings, run.hparams, 1)
    assert (tmp_path / "run" / name).read_text() == "<UNK>\nnew\n"


def test_a_vocabulary_that_lies_in_the_run_folder_alone_stays(tmp_path):
    """The run folder may be the data folder."""
    run = make_run(tmp_path)
    (tmp_path / "model.ckpt-0.index").unlink()
    problem = registry.problem("text2text_tmpdir_tokens")
    settings = dataclasses.replace(run.settings, problem=problem.name)
    (tmp_path / run_folder.FLAGS).write_text(settings.to_json())
    (name,) = problem.vocab_files()
    (tmp_path / name).write_text("<UNK>\nmine\n")
    for data_dir in (str(tmp_path), f"{tmp_path}/mistyped"):
        again = dataclasses.replace(settings, data_dir=data_dir)
        opening.forget_unstarted(again, run.hparams)
        assert (tmp_path / name).read_text() == "<UNK>\nmine\n"


def test_a_run_with_its_best_checkpoint_alone_is_not_begun_anew(tmp_path):
    make_run(tmp_path)
    (tmp_path / "model.ckpt-0.index").rename(tmp_path / "best.ckpt-0.index")
    remedy = rf"holds best.ckpt-0 but no .*--warm_start_from={tmp_path}/best.ckpt-0, and another"
    with pytest.raises(UserError, match=remedy):
        make_run(tmp_path)


@pytest.mark.parametrize("schedule", ["continuous_train_and_eval", "train"])
@pytest.mark.parametrize("first", [False, True])
def test_evaluations_stay_on_their_split(tmp_path, first, schedule):
    make_run(tmp_path, eval_use_test_set=first)
    record = {"kind": "eval", "step": 0, "loss": 1.0} | ({selection.SPLIT: "test"} if first else {})
    (tmp_path / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    make_run(tmp_path, eval_use_test_set=first, schedule=schedule)
    (tmp_path / "metrics.jsonl").write_text('{"kind": "eval", "step": 0}\n')  # as it was once
    make_run(tmp_path, eval_use_test_set=first, schedule=schedule)
    message = (
        f"on {'test' if first else 'dev'}, so the best .*: give --{'' if first else 'no'}eval_"
    )
    is_refused = schedule != "train"
    with pytest.raises(UsageError, match=message) if is_refused else contextlib.nullcontext():
        make_run(tmp_path, eval_use_test_set=not first, schedule=schedule)


NOW = {selection.SEARCH: "beam_size=8", selection.EVAL_STEPS: "100"}


@pytest.mark.parametrize("schedule", ["continuous_train_and_eval", "train"])
@pytest.mark.parametrize(
    ("record", "differences"),
    [
        ({}, ""),  # of an earlier release
        (NOW, ""),
        ({selection.SEARCH: "beam_size=1"}, "--decode_hparams: 'beam_size=1' != 'beam_size=8'"),
        ({**NOW, selection.EVAL_STEPS: "5"}, "--eval_steps: '5' != '100'"),
    ],
)
def test_evaluations_keep_their_search_and_size(tmp_path, record, differences, schedule):
    settings = make_run(tmp_path, schedule=schedule).settings
    record = {"kind": "eval", "step": 0, "loss": 1.0, **record}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    before = (tmp_path / run_folder.FLAGS).read_bytes()
    hparams = registry.hparams("transformer_test").override(SMALL)
    is_refused = differences and schedule != "train"
    refused = pytest.raises(
        UsageError, match=rf"now\): {differences}, so the best .* by a mix: give the old"
    )
    with refused if is_refused else contextlib.nullcontext():
        opening.open_for_training(settings, hparams, 1, origin_of=lambda run: NOW)
    assert (tmp_path / run_folder.FLAGS).read_bytes() == before


@pytest.mark.parametrize("is_same", [True, False])
def test_data_of_another_vocabulary_is_not_evaluated(tmp_path, is_same):
    problem = registry.problem("text2text_tmpdir_tokens")
    (name,) = problem.vocab_files()
    for folder, text in (("run", "old"), ("data", "old" if is_same else "new")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(f"<UNK>\n{text}\n")
    run = make_run(tmp_path / "run", problem=problem.name)
    settings = dataclasses.replace(run.settings, data_dir=str(tmp_path / "data"))
    refused = pytest.raises(UserError, match=rf"run/{name}.* differs from .*data/{name}")
    with contextlib.nullcontext() if is_same else refused:
        opening.open_for_evaluation(settings, run.hparams)


def test_a_trial_of_a_run_that_has_not_started_has_its_own_seed(tmp_path):
    run = make_run(tmp_path)
    with pytest.raises(UserError, match="--random_seed=1, not 7"):
        opening.seed_and_parts(str(tmp_path), 7, run.hparams, 2, ignore_unstarted=True)
    (tmp_path / "model.ckpt-0.index").unlink()
    found = opening.seed_and_parts(str(tmp_path), 7, run.hparams, 2, ignore_unstarted=True)
    assert found == (7, 2)
