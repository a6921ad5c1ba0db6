"""t2t-decoder's flags and their way into the configuration."""

import dataclasses

import pytest

from support.commands import exit_code, refusal
from t2t_lite.bin.t2t_decoder import COMMAND, configure, main
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.loading import find_models
from t2t_lite.search.decode_hparams import DecodeHParams


def test_the_run_folder_is_enough():
    assert configure(COMMAND.parse(["--output_dir=runs/x"])) == DecoderConfig(output_dir="runs/x")


def test_a_checkpoint_is_enough():
    config = configure(COMMAND.parse(["--checkpoint_path=runs/x/model.ckpt-7"]))
    assert config == DecoderConfig(checkpoint_path="runs/x/model.ckpt-7")


@pytest.mark.parametrize("name", ["best", "newest", "300", "model.ckpt-7", "runs/x/a,best"])
def test_the_name_of_a_checkpoint_needs_its_folder(name):
    assert "--output_dir is missing" in refusal(main, f"--checkpoint_path={name}")


def test_checkpoints_are_found_by_name(tmp_path, monkeypatch):
    for name in ("flags.json", "averaged.ckpt-3.index", "model.ckpt-7.index"):
        (tmp_path / name).write_text(
            '{"problem": "algorithmic_identity_decimal40", '
            '"model": "transformer", "hparams_set": "transformer_test"}'
        )
    (tmp_path / "hparams.json").write_text("{}")
    found = []

    def keep(config):
        found.append([trained.checkpoint for trained in find_models(config)])

    monkeypatch.setattr("t2t_lite.decoding.jobs.run", keep)
    folder = f"--output_dir={tmp_path}"
    elsewhere = tmp_path / "elsewhere" / "model.ckpt-1"
    elsewhere.parent.mkdir()
    elsewhere.with_suffix(".ckpt-1.index").touch()
    assert exit_code(main, folder, f"--checkpoint_path=averaged, 7,{elsewhere}") == 0
    assert found == [[f"{tmp_path}/averaged.ckpt-3", f"{tmp_path}/model.ckpt-7", str(elsewhere)]]


def test_every_flag_arrives(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("in", "ref", "prefixes", "pairs"):
        (tmp_path / name).touch()
    given = {
        "output_dir": "runs/x",
        "checkpoint_path": "runs/x/model.ckpt-7",
        "problem": "text2text_tmpdir",
        "model": "transformer",
        "hparams_set": "transformer_tiny",
        "hparams": "max_length=9",
        "data_dir": "data",
        "decode_from_file": "in",
        "decode_to_file": "out",
        "decode_reference": "ref",
        "prefix_file": "prefixes",
        "long_input": "truncate",
        "output_format": "json",
        "worker_gpu": 0,
        "source_language": "en",
        "target_language": "de",
        "decode_hparams": "beam_size=8,alpha=1,return_beams=true,target_language=de",
    }
    words = [f"--{name}={value}" for name, value in given.items()]
    config = configure(COMMAND.parse(words))
    assert dataclasses.asdict(config).items() >= given.items()
    for flag in ("decode_interactive", "eval_use_test_set"):
        assert getattr(configure(COMMAND.parse([*words[:1], f"--{flag}"])), flag)
    scoring = [*words[:1], "--score_file=pairs", "--decode_to_file=scores"]
    assert configure(COMMAND.parse(scoring)).score_file == "pairs"


def test_t2ts_search_defaults():
    assert DecodeHParams().to_dict() == {
        "beam_size": 4,
        "alpha": 0.6,
        "length_penalty": "t2t",
        "stopping": "t2t",
        "coverage_penalty": 0.0,
        "min_length": 0,
        "no_repeat_ngram_size": 0,
        "sampling_method": "argmax",
        "sampling_temp": 1.0,
        "sampling_keep_top_k": -1,
        "sampling_keep_top_p": 1.0,
        "seed": 0,
        "replace_unk": False,
        "extra_length": 100,
        "length_factor": 1,
        "force_decode_length": False,
        "end_at_limit": False,
        "well_formed": False,
        "batch_size": 0,
        "dtype": "",
        "return_beams": False,
        "write_beam_scores": False,
        "xla_compile": False,
        "shortlist": "",
        "search": "",
        "max_input_size": -1,
        "source_language": "",
        "target_language": "",
        "term_mode": "hard",
    }


NO_REFERENCE = "needs reference outputs: give --decode_reference"
WHOLE = "expected a whole number"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "--output_dir is missing: Run folder of t2t-trainer"),
        (["--decode_interactive", "--decode_from_file=x"], "exclude each other"),
        (["--decode_interactive", "--score_file=x"], "exclude each other"),
        (["--decode_interactive", "--decode_to_file=x"], "leave --decode_to_file out"),
        (["--decode_interactive", "--eval_use_test_set"], "decodes the test split: leave out"),
        (["--decode_from_file=x", "--eval_use_test_set"], "decodes the test split: leave out"),
        (["--decode_from_file=x", "--dataset_split=unseen"], "decodes the unseen split: leave out"),
        (["--dataset_split=dev", "--eval_use_test_set"], "both choose a split"),
        (["--dataset_split=tset"], "expected train, dev, test or unseen; did you mean"),
        (["--decode_reference=x"], "--decode_reference needs --decode_from_file"),
        (["--prefix_file=x"], "--prefix_file needs --decode_from_file"),
        (["--decode_from_file=x", "--prefix_file=x", "--score_file=x"], "exclude each other"),
        (["--score_file=x"], "--decode_to_file is missing"),
        (["--decode_from_file=-", "--decode_to_file=x"], "which writes to standard output"),
        (["--decode_from_file=-", "--decode_reference=x"], "which writes to standard output"),
        (["--decode_from_file=-", "--score_file=x"], "which writes to standard output"),
        (["--decode_from_file=x", "--metrics=ter"], NO_REFERENCE),
        (["--decode_interactive", "--metrics=ter"], NO_REFERENCE),
        (["--metrics=terr"], "unknown metric 'terr'; did you mean 'ter'?"),
        (["--metrics=loss"], "'loss' scores predictions under teacher forcing, not outputs"),
        (["--long_input=drop"], "--long_input=drop"),
        (["--problem=text2text_tmpdri"], "unknown problem 'text2text_tmpdri'; did you mean"),
        (["--model=transfomer"], "did you mean 'transformer'?"),
        (["--hparams_set=transformer_tyni"], "did you mean 'transformer_tiny'?"),
        (["--decode_hparams=alpa=1"], "unknown decode hparam 'alpa'; did you mean 'alpha'?"),
        (["--decode_hparams=beam_size=two"], f"decode hparam beam_size='two': {WHOLE}"),
        (
            ["--target_language=de", "--decode_hparams=target_language=fr,beam_size=2"],
            "--target_language=de and --decode_hparams=target_language=fr differ: give one of",
        ),
        (
            ["--shortlist=a", "--decode_hparams=shortlist=b"],
            "--shortlist=a and --decode_hparams=shortlist=b differ: give one of them",
        ),
        (["--shortlist=a", "--decode_hparams=beam_size=2,shortlist=./a"], "differ: give one"),
        (["--compute_type=int8"], "--compute_type=int8 needs --engine=ctranslate2: give both"),
        (["--compute_type=auto", "--engine=tensorflow"], "--compute_type=auto needs --engine="),
        (["--decode_hparams=extra_length=-1"], f"extra_length=-1: {WHOLE}, at least 0"),
    ],
)
def test_usage_errors_are_one_line(argv, message):
    folder = ["--output_dir=runs/x"] if argv else []
    assert message in refusal(main, *folder, *argv)
