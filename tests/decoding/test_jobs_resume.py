"""A killed t2t-decoder resumes with the remaining batches, and writes the same output."""

import dataclasses
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.commands import Killed
from support.small_runs import noisy_run
from t2t_lite.data.problem import Output
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.decoding import dataset_decoding, devices, input_lines, jobs
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.hypotheses import Hypothesis, Source
from t2t_lite.decoding.loading import find_models, load_decoder
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_encoder import EOS_ID, ByteTextEncoder

BYTES = {"inputs": ByteTextEncoder(), "targets": ByteTextEncoder()}
# Windows of 4 and 8 lines, batches of 3 pieces of at most 9 bytes: some lines span batches.
ROWS = [
    "one. two. three.",
    "",
    "4",
    "five five",
    "6. six. 66. six. 666.",
    "",
    "seven",
    "8",
    "nine nine nine",
    "10",
    "eleven. 1. 11.",
    "",
    "13",
]


class Bytes(Text2TextProblem):
    name = "resume_test_bytes"

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        raise NotImplementedError

    def existing_filepaths(self, data_dir, split):
        return [f"{data_dir}/{split}"]


class Batches:
    """Replaces the devices: counts batches, runs them in another order, and dies."""

    def __init__(self, last: int, order: random.Random) -> None:
        self.last = last  # number of batches before the end
        self.seen: list[list[Source]] = []
        self._order = order

    def map(self, work, batches):
        del work
        numbered = list(enumerate(batches))
        self._order.shuffle(numbered)
        for number, batch in numbered:
            if len(self.seen) == self.last:
                raise Killed
            self.seen.append(batch)
            # The output names its batch: it must be the same one whenever it is decoded.
            size = len(batch)
            yield (
                number,
                [[hypothesis(source, size), hypothesis(source, -size)] for source in batch],
            )


def hypothesis(source: Source, tag: int) -> Hypothesis:
    text = f"<{source.text}|{tag}>"
    return Hypothesis(Output(text), BYTES["targets"].encode(text), -1 / (3 + len(text) + tag))


def run(config: DecoderConfig, batches: Batches) -> str:
    """Runs the command's job with these batches; returns what it wrote."""
    hparams = DecodeHParams(batch_size=3, max_input_size=9, return_beams=True, beam_size=2)
    hparams = hparams.copy(write_beam_scores=True)
    model = types.SimpleNamespace(
        hparams=types.SimpleNamespace(max_length=0, markup_augmentation=0)
    )
    model.learned_positions = 0
    decoder = Decoder(TensorFlowEngine([model], BYTES, hparams), Bytes())
    decoder.engine.map = batches.map
    opened = types.SimpleNamespace(
        problem=Bytes(),
        model_name="fake",
        hparams_set="none",
        decode_hparams="",
        own_files=list,
        refuse_other_vocabulary=lambda data_dir: None,
    )
    trained = types.SimpleNamespace(run=opened, origin=dict, files=opened.own_files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "find_models", lambda config: [trained])
        patch.setattr(jobs, "load_decoder", lambda config, trained: (decoder, trained))
        patch.setattr(dataset_decoding, "read_examples", examples)
        patch.setattr(input_lines, "_FIRST_WINDOW", 4)
        patch.setattr(os, "fsync", lambda descriptor: None)
        jobs.run(config)
    written = pathlib.Path(config.decode_to_file)
    if not config.decode_from_file:
        (written,) = written.parent.glob("out.*.decodes")
    return written.read_text()


@pytest.fixture(scope="module", params=["file", "split"])
def config(request, tmp_path_factory) -> DecoderConfig:
    folder = tmp_path_factory.mktemp("in")
    if request.param == "file":
        (folder / "in").write_text("".join(f"{row}\n" for row in ROWS))
        return DecoderConfig(decode_from_file=str(folder / "in"))
    (folder / "eval").touch()
    return DecoderConfig(data_dir=str(folder))


def examples(decoder, paths, name, first):
    """Replaces the reading of a split."""
    del paths
    ids = [decoder.engine.encoders["inputs"].encode(row) for row in ROWS]
    sources = [
        decoder.cutter.truncated(Source(r, [*x, EOS_ID] if x else [], n), name)
        for n, (r, x) in enumerate(zip(ROWS, ids, strict=True), first)
    ]
    return sources, ROWS


@pytest.mark.integration
@settings(max_examples=25)
@given(kills=st.lists(st.integers(0, 6), max_size=4), seed=st.integers(0, 999))
def test_a_killed_run_does_only_the_batches_that_are_left(config, kills, seed):
    order = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        undisturbed = Batches(99, random.Random(0))
        config = dataclasses.replace(config, decode_to_file=str(folder / "whole" / "out"))
        expected = run(config, undisturbed)
        config = dataclasses.replace(config, decode_to_file=str(folder / "out"))
        seen = []
        for last in [*kills, 99]:
            batches = Batches(last, order)
            try:
                written = run(config, batches)
            except Killed:
                written = None
            seen += batches.seen
            if written is not None:
                break
    assert written == expected
    assert sorted(map(repr, seen)) == sorted(map(repr, undisturbed.seen)), "each batch once"


@pytest.mark.integration
def test_a_killed_process_resumes_with_what_is_left(tmp_path, monkeypatch, caplog):
    folder = noisy_run(
        tmp_path / "made", hidden_size=8, filter_size=8, num_heads=2, num_hidden_layers=1
    ).folder
    source = tmp_path / "in"
    source.write_text("".join(f"{'word ' * (n % 7)}{n}\n" for n in range(1500)))
    config = DecoderConfig(
        output_dir=str(folder),
        decode_from_file=str(source),
        decode_to_file=str(tmp_path / "out"),
        decode_hparams="beam_size=1,extra_length=8,batch_size=64",
        worker_gpu=0,
    )
    flags = dataclasses.asdict(config) | {"worker_gpu": "0"}
    command = [sys.executable, "-m", "t2t_lite.bin.t2t_decoder"]
    command += [f"--{name}={value}" for name, value in flags.items() if isinstance(value, str)]
    part = tmp_path / "out.part"
    process = subprocess.Popen(command)
    try:
        end = time.monotonic() + 120
        while len(batches(part)) < 12 and time.monotonic() < end:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    kept = batches(part)
    assert len(kept) >= 12
    window = kept[-1][0]
    assert sum(len(batch[2]) for batch in kept if batch[0] == window) < window + 16, "half done"
    monkeypatch.setattr(devices, "decoding_devices", lambda _: ["CPU:0"])
    loaded = load_decoder(config, find_models(config))
    monkeypatch.setattr(jobs, "load_decoder", lambda *_: loaded)  # for both
    with caplog.at_level("INFO"):
        jobs.run(config)
    done = sum(len(batch[2]) for batch in kept)
    assert f"where {done} lines are done" in caplog.text
    assert f"decoded {1500 - done} sentences" in caplog.text
    assert not part.exists()
    jobs.run(dataclasses.replace(config, decode_to_file=str(tmp_path / "whole")))
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def batches(part: pathlib.Path) -> list:
    """Returns the complete records."""
    if not part.exists():
        return []
    written = part.read_bytes().split(b"\n")[1:-1]
    return [json.loads(line.partition(b" ")[2]) for line in written]  # after its checksum
