"""The jobs of t2t-decoder on files, with a small untrained model of numbers."""

import dataclasses
import io
import json
import os
import pathlib
import types

import keras
import pytest

from support.rounding import relative_bound
from support.small_runs import make_run, save_weights
from support.terms import log_prob_terms
from t2t_lite.decoding import devices, jobs
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.loading import find_models, load_decoder
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.runs import run_folder

SEARCH = "beam_size=2,extra_length=4"
PRINTED = 0.5e-6  # what the rounding to six decimals changes at most
LINES = [" ".join(str((7 * i + j * j) % 10) for j in range(i % 9)) for i in range(40)]


def run_of(folder: pathlib.Path, seed: int, problem="algorithmic_identity_decimal40") -> str:
    """Makes a run folder with one checkpoint; returns its path."""
    opened = make_run(folder, problem, data_dir=folder, num_hidden_layers=1)
    keras.utils.set_random_seed(seed)
    model = opened.build_model()
    for weight in model.weights:  # so large that the outputs differ from line to line
        weight.assign(3.0 * weight.value)
    save_weights(folder, model, seed)
    return str(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return run_of(tmp_path_factory.mktemp("runs") / "one", 1)


@pytest.fixture(scope="module", autouse=True)
def decoders_are_shared():
    """Shares decoders on one device between runs of the command that need the same."""
    models = ("output_dir", "checkpoint_path", "hparams")
    searches = ("decode_hparams", "long_input", "output_format")
    made = {}

    def load_once(config, trained):
        key = tuple(getattr(config, name) for name in (*models, *searches))
        if key not in made:
            made[key] = load_decoder(config, trained)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "load_decoder", load_once)
        patch.setattr(devices, "decoding_devices", lambda _: ["CPU:0"])
        yield


@pytest.fixture
def config(folder, tmp_path) -> DecoderConfig:
    return DecoderConfig(
        output_dir=folder,
        decode_from_file=write(tmp_path / "in", LINES),
        decode_to_file=str(tmp_path / "out"),
        decode_hparams=SEARCH,
        worker_gpu=0,
    )


@pytest.fixture(scope="module")
def outputs(folder, tmp_path_factory) -> list[str]:
    """The lines that an uninterrupted run with `config` writes."""
    path = tmp_path_factory.mktemp("outputs")
    return run(
        DecoderConfig(
            output_dir=folder,
            decode_from_file=write(path / "in", LINES),
            decode_to_file=str(path / "out"),
            decode_hparams=SEARCH,
            worker_gpu=0,
        )
    )


def write(path: pathlib.Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def run(config: DecoderConfig, **changes) -> list[str]:
    """Runs the command's job; returns the lines that it wrote."""
    jobs.run(dataclasses.replace(config, **changes))
    return pathlib.Path(config.decode_to_file).read_text().splitlines()


@pytest.mark.integration
def test_json_has_what_the_model_says_of_each_token_and_score_file_gives_the_same(config, tmp_path):
    found = [
        json.loads(line)
        for line in run(config, output_format="json", decode_hparams=f"{SEARCH},return_beams=1")
    ]
    assert [entry["source"] for entry in found] == LINES
    steps = 9 + 4  # of the longest source, with its EOS, and of `extra_length`
    terms = steps * log_prob_terms(
        run_folder.RunFolder.open(config.output_dir).build_model(), steps
    )
    beams = [beam for entry in found for beam in entry["hypotheses"]]
    # Differences of logits are added up.
    error = relative_bound(2 * terms) * max(-min(beam["log_probs"]) for beam in beams)
    ended = []
    for line, entry in zip(LINES, found, strict=True):
        assert bool(line) <= len(entry["hypotheses"]) <= 2 * bool(line)
        for beam in entry["hypotheses"]:
            if "<pad>" in beam["tokens"]:  # it has no text that could be scored
                continue
            assert beam["source_tokens"] == [*line.split(), "<EOS>"]
            assert " ".join(beam["tokens"]).removesuffix("<EOS>").strip() == beam["text"]
            assert len(beam["attention"]) == len(beam["log_probs"]) == len(beam["tokens"])
            for row in beam["attention"]:
                assert len(row) == len(beam["source_tokens"])
                assert sum(row) == pytest.approx(1, abs=len(row) * PRINTED + error)
            if beam["tokens"][-1] == "<EOS>":
                penalty = ((5 + len(beam["tokens"])) / 6) ** 0.6
                total = sum(beam["log_probs"]) / penalty
                assert total == pytest.approx(beam["score"], abs=(steps + 1) * PRINTED + error)
                ended.append((line, beam["text"], beam["score"]))
    assert len(ended) > 20
    assert len({text for _, text, _ in ended}) > 10

    sources, targets, scores = zip(*ended, strict=True)
    lines = {
        "decode_from_file": write(tmp_path / "sources", [*sources, ""]),
        "score_file": write(tmp_path / "targets", [*targets, "1"]),
    }
    *written, last = run(config, **lines)
    assert [float(score) for score in written] == pytest.approx(scores, abs=2 * PRINTED + error)
    assert last == ""
    pairs = write(tmp_path / "pairs", [f"{s}\t{t}" for s, t in zip(sources, targets, strict=True)])
    assert run(config, decode_from_file="", score_file=pairs) == written


@pytest.mark.integration
def test_a_killed_run_resumes_and_scores_all(
    config, outputs, tmp_path, monkeypatch, caplog, capsys
):
    config = dataclasses.replace(config, decode_reference=write(tmp_path / "ref", outputs))
    with monkeypatch.context() as patch:
        search = Decoder._search

        def die(self, compiled, sources):
            if sources[0].number > 16:  # in the second window, whose empty lines are done by then
                raise KeyboardInterrupt
            return search(self, compiled, sources)

        patch.setattr(Decoder, "_search", die)
        with pytest.raises(KeyboardInterrupt):
            jobs.run(config)
    assert not (tmp_path / "out").exists()
    with caplog.at_level("INFO"):
        assert run(config) == outputs
    assert f"resuming from {tmp_path}/out.part, where 19 lines are done" in caplog.text
    assert "decoded 21 sentences" in caplog.text
    assert "first output after" in caplog.text
    assert "BLEU_cased = 100.00\n" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"in", "out", "ref"}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"decode_hparams": f"{SEARCH},alpha=0.5"}, "decode_hparams"),
        ({"output_format": "json"}, "output_format"),
        ({"hparams": "max_length=33"}, "checkpoint"),
    ],
)
def test_another_task_starts_over(config, monkeypatch, caplog, changes, what):
    def die(self, *args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Decoder, "decode_batches", die)
    for settings in (config, dataclasses.replace(config, **changes)):
        with pytest.raises(KeyboardInterrupt):
            jobs.run(settings)
    assert f"starting over: {config.decode_to_file}.part was made with" in caplog.text
    assert f"another {what}" in caplog.text


@pytest.mark.integration
def test_outputs_begin_with_their_prefixes(config, outputs, tmp_path):
    prefixes = [str(i % 10) * (i % 2) for i in range(len(LINES))]
    forced = run(config, prefix_file=write(tmp_path / "prefixes", prefixes))
    for line, prefix, output in zip(LINES, prefixes, forced, strict=True):
        assert output.startswith(prefix) or not line
    assert forced[::2] == outputs[::2]
    assert forced != outputs


@pytest.mark.integration
def test_standard_input_to_standard_output(config, outputs, monkeypatch, capsys):
    read, end = os.pipe()
    os.write(end, "".join(f"{line}\n" for line in LINES).encode())
    os.close(end)
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(fileno=lambda: read))
    jobs.run(dataclasses.replace(config, decode_from_file="-", decode_to_file=""))
    os.close(read)
    assert capsys.readouterr().out.splitlines() == outputs


@pytest.mark.integration
def test_over_long_lines_are_split_or_truncated(config, tmp_path, caplog):
    """Decodes them once as halves, and once as separate lines."""
    line = LINES[8]  # 8 numbers
    lines = [line, line[:7], line[8:], LINES[4]]
    settings = {
        "decode_from_file": write(tmp_path / "long", lines),
        "decode_hparams": f"{SEARCH},max_input_size=5",
    }
    whole, *halves, short = run(config, **settings)
    assert whole == " ".join(filter(None, halves))
    assert caplog.messages == []
    assert run(config, long_input="truncate", **settings) == [halves[0], *halves, short]
    assert caplog.messages == [f"{tmp_path}/long, line 1 has 9 subwords: cut to 5"]


@pytest.mark.integration
def test_what_is_typed_shows_scores_with_the_beams(config, monkeypatch, capsys, caplog):
    lines = io.TextIOWrapper(io.BytesIO(b"one \xff\n1 2 3\n\nq\n"))
    monkeypatch.setattr("sys.stdin", lines)
    typed = {"decode_from_file": "", "decode_to_file": "", "decode_interactive": True}
    search = f"{SEARCH},return_beams=true"
    jobs.run(dataclasses.replace(config, decode_hparams=search, **typed))
    first, second, end = capsys.readouterr().out.replace("> ", "").split("\n")
    assert float(first.split("\t")[0]) >= float(second.split("\t")[0])
    assert end == ""
    assert "line 1: " in caplog.text, "what cannot be read is named, and the session goes on"


# ---- ensembles


@pytest.mark.integration
def test_a_model_twice_is_the_model_and_two_models_are_another(config, outputs, folder, tmp_path):
    one = f"{folder}/model.ckpt-1"
    assert run(config, checkpoint_path=f"{one},{one}", output_dir="") == outputs
    two = f"{run_of(tmp_path / 'two', 2)}/model.ckpt-2"
    assert run(config, checkpoint_path=f"{one}, {two}") != outputs


def test_models_of_other_vocabularies_are_refused(tmp_path):
    paths = []
    for name in ("a", "b"):
        data = tmp_path / name
        data.mkdir()
        (data / "vocab.text2text_tmpdir_tokens.tokens").write_text(f"<pad>\n<EOS>\n{name}\n<UNK>\n")
        make_run(data / "run", "text2text_tmpdir_tokens", data_dir=data)
        paths.append(f"{data}/run/model.ckpt-1")
        (data / "run" / "model.ckpt-1.index").touch()
    with pytest.raises(UserError, match=r"the vocabularies in .*b/run and .*a/run differ: "):
        find_models(DecoderConfig(checkpoint_path=",".join(paths)))


@pytest.mark.parametrize(
    ("hparams", "warning"),
    [("num_heads=1", "=num_heads=1: {} was trained with 2, and its weights"), ("batch_size=7", "")],
)
def test_hparams_with_which_weights_compute_something_else_are_a_warning(
    folder, hparams, warning, caplog
):
    find_models(DecoderConfig(output_dir=folder, hparams=hparams))
    assert len(caplog.messages) == bool(warning)
    assert warning.format(folder) in caplog.text


def test_models_of_other_problems_are_refused(folder, tmp_path):
    other = run_of(tmp_path / "reverse", 1, "algorithmic_reverse_decimal40")
    paths = [f"{path}/model.ckpt-1" for path in (folder, other)]
    with pytest.raises(UserError, match=r"algorithmic_reverse_decimal40, .* on algorithmic_id"):
        find_models(DecoderConfig(checkpoint_path=",".join(paths)))


# ---- mistakes


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"decode_hparams": "alpa=1"}, UsageError, "unknown decode hparam 'alpa'; did you mean"),
        ({"decode_to_file": "/proc/no/such"}, OSError, "/proc/no"),
        ({"decode_from_file": "", "score_file": "gone"}, UserError, "gone: no such file"),
        ({"prefix_file": "gone"}, UserError, "gone: no such file"),
    ],
)
def test_usage_errors_name_the_cause(config, changes, error, message):
    with pytest.raises(error) as raised:
        jobs.run(dataclasses.replace(config, **changes))
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.integration
def test_a_token_that_is_unknown_is_named_with_its_line_in_any_window(config, tmp_path):
    path = write(tmp_path / "bad", [*LINES[:20], "1 x 2"])
    with pytest.raises(DataError, match=r"bad, line 21: 'x' in '1 x 2' is not a symbol"):
        jobs.run(dataclasses.replace(config, decode_from_file=path))
