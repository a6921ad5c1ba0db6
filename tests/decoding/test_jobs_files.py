"""The job of t2t-decoder: files, splits and lines that are typed, and what it refuses."""

import dataclasses
import io

import pytest

from support.copying import BYTES, HOSTILE, copier, one_line
from support.rounding import assert_close
from support.small_runs import make_run, save_weights
from t2t_lite import registry
from t2t_lite.data import records
from t2t_lite.decoding import jobs
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.dataset_decoding import evaluate
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.runs import run_folder
from t2t_lite.text.text_encoder import EOS_ID


@pytest.fixture
def run(tmp_path) -> DecoderConfig:
    """A run folder of the copying model with a checkpoint, and its data."""
    data_dir = tmp_path / "data"
    for split, texts in (("dev", ["one two three four", "five six seven"]), ("test", ["a b c d"])):
        ids = [[*BYTES["inputs"].encode(text), EOS_ID] for text in texts]
        data_dir.mkdir(exist_ok=True)
        records.write_examples(
            data_dir / f"decoder_test_bytes-{split}-00000-of-00001",
            [{"inputs": source, "targets": source} for source in ids],
        )
    names = {"problem": "decoder_test_bytes", "model": "decoder_test_copy"}
    opened = make_run(tmp_path / "run", data_dir=data_dir, **names)
    save_weights(opened.folder, opened.build_model())
    return DecoderConfig(output_dir=str(opened.folder))


def with_lines(config, path, texts):
    path.write_bytes("".join(f"{text}\n" for text in texts).encode())
    return dataclasses.replace(config, decode_from_file=str(path))


@pytest.mark.integration
def test_decodes_a_file_line_by_line(run, tmp_path):
    config = with_lines(run, tmp_path / "in", HOSTILE)
    jobs.run(dataclasses.replace(config, decode_to_file=str(tmp_path / "new/out")))
    lines = (tmp_path / "new/out").read_bytes().decode().split("\n")
    assert lines == [*(one_line(text) for text in HOSTILE), ""]


@pytest.mark.integration
def test_names_its_output_as_t2t(run, tmp_path):
    jobs.run(with_lines(run, tmp_path / "in", ["a"]))
    name = "in.decoder_test_copy.transformer_test.decoder_test_bytes.beam4.alpha0.6.decodes"
    assert (tmp_path / name).read_text() == "a\n"


@pytest.mark.integration
def test_writes_all_beams_with_their_scores(run, tmp_path):
    search = "return_beams=true,write_beam_scores=true,beam_size=2"
    config = with_lines(run, tmp_path / "in", ["tab\there", ""])
    out = tmp_path / "out"
    jobs.run(dataclasses.replace(config, decode_hparams=search, decode_to_file=str(out)))
    first, second = out.read_text().splitlines()
    best, score, _, other = first.split("\t")
    assert best == "tab here"
    assert float(score) > float(other)
    assert second == ""


@pytest.mark.integration
def test_prints_bleu_against_a_reference(run, tmp_path, capsys):
    texts = ["one two three four", "five six seven eight"]
    config = with_lines(run, tmp_path / "in", texts)
    reference = with_lines(run, tmp_path / "ref", texts).decode_from_file
    jobs.run(dataclasses.replace(config, decode_reference=reference))
    printed = capsys.readouterr().out
    assert "BLEU_cased = 100.00\n" in printed
    assert "tok:13a" in printed


def test_a_reference_of_another_length_is_refused_before_decoding(run, tmp_path):
    config = with_lines(run, tmp_path / "in", ["a", "b"])
    reference = with_lines(run, tmp_path / "ref", ["a"]).decode_from_file
    out = tmp_path / "out"
    with pytest.raises(DataError, match=r"in has 2 lines but .*ref has 1"):
        jobs.run(dataclasses.replace(config, decode_reference=reference, decode_to_file=str(out)))
    assert not out.exists()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("flags", "texts"),
    [({}, 2), ({"eval_use_test_set": True}, 1), ({"dataset_split": "test"}, 1)],
)
def test_decodes_a_split_of_the_data(run, tmp_path, capsys, flags, texts):
    prefix = str(tmp_path / "results")
    jobs.run(dataclasses.replace(run, decode_to_file=prefix, **flags))
    assert "BLEU_cased = 100.00\n" in capsys.readouterr().out
    stem = "results.decoder_test_copy.transformer_test.decoder_test_bytes.beam4.alpha0.6"
    contents = {
        (tmp_path / f"{stem}.{end}").read_text() for end in ("inputs", "targets", "decodes")
    }
    assert len(contents) == 1
    assert contents.pop().count("\n") == texts


def test_a_split_that_the_problem_lacks_is_refused(run):
    with pytest.raises(UserError, match="has no unseen split; it has dev, test"):
        jobs.run(dataclasses.replace(run, dataset_split="unseen"))


@pytest.mark.integration
def test_decodes_what_is_typed(run, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("first\n\nsecond\nq\nnever\n"))
    jobs.run(dataclasses.replace(run, decode_interactive=True))
    assert capsys.readouterr().out.replace("> ", "") == "first\n\nsecond\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("last"))
    jobs.run(dataclasses.replace(run, decode_interactive=True))
    assert "last" in capsys.readouterr().out


def test_a_checkpoint_alone_identifies_its_run(run, tmp_path):
    config = with_lines(run, tmp_path / "in", ["a b"])
    path = f"{run.output_dir}/model.ckpt-7"
    out = tmp_path / "out"
    config = dataclasses.replace(config, output_dir="", decode_to_file=str(out))
    jobs.run(dataclasses.replace(config, checkpoint_path=path))
    assert out.read_text() == "a b\n"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"output_dir": "nowhere"}, UserError, "nowhere is not a run folder"),
        ({"checkpoint_path": "gone"}, UserError, "has no checkpoint 'gone'"),
        ({"model": "transformer"}, UsageError, "--model=transformer, but .* decoder_test_copy"),
        ({"hparams": "hidden_siz=3"}, UsageError, "did you mean 'hidden_size'"),
        ({"hparams": "hidden_size=8"}, UserError, "does not fit"),
        ({"decode_from_file": "gone.txt"}, UserError, "gone.txt: no such file"),
        ({"data_dir": "gone"}, UserError, "t2t-datagen"),
        ({"worker_gpu": 99}, UserError, "--worker_gpu=99"),
    ],
)
def test_usage_errors_are_one_line(run, changes, error, message):
    with pytest.raises(error, match=message) as raised:
        jobs.run(dataclasses.replace(run, **changes))
    assert "\n" not in str(raised.value)


def test_bytes_that_are_no_text_are_named(run, tmp_path):
    path = tmp_path / "in"
    path.write_bytes(b"fine\n\xff\n")
    with pytest.raises(DataError, match=r"in, line 2: byte 0xff"):
        jobs.run(dataclasses.replace(run, decode_from_file=str(path)))


def test_an_output_that_cannot_be_written_fails_before_decoding(run, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(Decoder, "decode_batches", lambda *_: pytest.fail("searched"))
    config = with_lines(run, tmp_path / "in", ["a"])
    with pytest.raises(OSError, match="file"):
        jobs.run(dataclasses.replace(config, decode_to_file=str(tmp_path / "file/out")))


@pytest.mark.integration
def test_bleu_of_a_split_compares_with_the_whole_targets(run):
    problem = registry.problem("decoder_test_bytes")
    paths = problem.filepaths(run_folder.read_run_settings(run.output_dir).data_dir, "eval")
    bleu = evaluate(copier(), paths).values["bleu"]
    assert_close(bleu, 100.0, terms=8, dtype="float64")  # the logarithms of four shares, and exp
    assert evaluate(copier(max_input_size=9), paths).values["bleu"] < 90.0
