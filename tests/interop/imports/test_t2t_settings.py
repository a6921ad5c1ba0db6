"""T2T's files about a run are read as our settings."""

import json

import pytest

from t2t_lite import registry
from t2t_lite.errors import UsageError, UserError
from t2t_lite.interop.imports import t2t_settings


def test_flags_are_read_as_t2t_writes_them(tmp_path):
    (tmp_path / "flags.txt").write_text(
        "--problem=translate_ende_wmt32k\n--noregistry_help\n--hparams=a=1,b=2\n--t2t_usr_dir=\n"
    )
    (tmp_path / "flags_t2t.txt").write_text("--model=transformer\n--hparams_set=None\n")
    assert t2t_settings.read_flags(tmp_path) == {
        "problem": "translate_ende_wmt32k",
        "hparams": "a=1,b=2",
        "model": "transformer",
    }
    assert t2t_settings.read_flags(tmp_path / "nowhere") == {}


@pytest.mark.parametrize("name", ["translate_ende_wmt32k", "translate_ende_wmt32k_rev"])
@pytest.mark.parametrize("flag", ["problem", "problems"])
def test_the_problem_is_that_of_the_flags(tmp_path, flag, name):
    assert t2t_settings.find_problem(tmp_path, {flag: name}).name == name
    other = "text2text_tmpdir"
    assert t2t_settings.find_problem(tmp_path, {flag: name}, other).name == other


def test_changes_of_a_set_are_those_that_we_have():
    changes = "batch_size=1024, moe_hidden_sizes=[8,9],filter_size=128,proximity_bias=false"
    base = registry.hparams("transformer_base")
    # T2T adds a row of the target-space embedding unless told otherwise.
    wanted = base.copy(batch_size=1024, filter_size=128, use_target_space_embedding=True)
    assert t2t_settings.from_set("transformer_base", changes) == wanted
    without = t2t_settings.from_set("transformer_base", "use_target_space_embedding=False")
    assert without == base


def test_old_files_have_numbers_for_switches_and_nothing_for_no_positions():
    recorded = {"shared_embedding_and_softmax_weights": 1, "proximity_bias": 0, "pos": None}
    hparams = t2t_settings.from_recorded(recorded)
    assert hparams.shared_embedding_and_softmax_weights is True
    assert hparams.pos == "none"
    assert hparams.layer_postprocess_sequence == "dan"  # as before T2T knew another


def test_how_it_was_trained_may_be_unknown_here():
    known = {"optimizer": "TrueAdam", "learning_rate_decay_scheme": "exp"}
    hparams = t2t_settings.from_recorded(known)
    assert (hparams.optimizer, hparams.learning_rate_decay_scheme) == ("true_adam", "exp")
    other = {"optimizer": "YellowFin", "learning_rate_decay_scheme": "exp50k"}
    assert t2t_settings.from_recorded(other) == t2t_settings.from_recorded({})


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("add_or_concat_timing_signal", "concat", "concat"),
        ("add_position_timing_signal", False, "0"),
        ("add_sru", True, "1"),
        ("add_step_timing_signal", False, "0"),
        ("attention_variables_3d", True, "1"),
        ("causal_decoder_self_attention", False, "0"),
        ("et_encoder_self_attention", False, "0"),
        ("factored_logits", True, "1"),
        ("hard_attention_k", 4, "4"),
        ("mix_with_transformer", "before_ut", "before_ut"),
        ("nbr_decoder_problems", 2, "2"),
        ("norm_type", "batch", "batch"),
        ("num_area_layers", 1, "1"),
        ("num_inrecurrence_layers", 2, "2"),
        ("position_start_index", "random", "random"),
        ("proximity_bias", True, "1"),
        ("step_timing_signal_type", "sinusoid", "sinusoid"),
        ("symbol_modality_skip_top", True, "1"),
        ("transformer_ffn_type", "sepconv", "sepconv"),
        ("unidirectional_encoder", True, "1"),
        ("vocab_divisor", 8, "8"),
    ],
)
def test_a_model_that_we_do_not_have_is_named(tmp_path, name, value, shown):
    (tmp_path / "hparams.json").write_text(json.dumps({name: value, "hidden_size": 8}))
    with pytest.raises(UserError, match=rf"hparams\.json: .* unsupported model: {name}={shown}$"):
        t2t_settings.find_hparams(tmp_path, {})


def test_a_set_that_is_given_goes_before_hparams_json_and_changes_before_all(tmp_path):
    (tmp_path / "hparams.json").write_text(json.dumps({"hidden_size": 8}))
    flags = {"hparams_set": "transformer_tiny", "hparams": "filter_size=9"}
    assert t2t_settings.find_hparams(tmp_path, flags).hidden_size == 8
    assert t2t_settings.find_hparams(tmp_path, flags, changes="hidden_size=6").hidden_size == 6
    given = t2t_settings.find_hparams(tmp_path, flags, "transformer_small")
    assert (given.hidden_size, given.filter_size) == (256, 1024)


@pytest.mark.parametrize("text", ["{", '{"hidden_size": "wide"}'])
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / "hparams.json").write_text(text)
    with pytest.raises(UserError, match=r"hparams\.json: "):
        t2t_settings.find_hparams(tmp_path, {})


def test_nothing_is_guessed(tmp_path):
    with pytest.raises(UsageError, match="give --hparams_set, and --hparams if it was changed"):
        t2t_settings.find_hparams(tmp_path, {"hparams": "hidden_size=8"})
