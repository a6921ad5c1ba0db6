"""Models of Marian, compared with what Marian itself has printed (tests/fixtures/marian)."""

import pathlib

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from t2t_lite.bin import t2t_decoder
from t2t_lite.interop.imports import open_models
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.text.text_encoder import EOS_ID

FIXTURE = pathlib.Path(__file__).parents[2] / "fixtures" / "marian"


def lines(name: str) -> list[str]:
    return (FIXTURE / name).read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunFolder:
    folder = tmp_path_factory.mktemp("imported") / "run"
    open_models.import_run(str(FIXTURE), str(folder))
    return RunFolder.open(str(folder))


def ids_of(run: RunFolder, side: str, line: str) -> list[int]:
    encoder = run.encoders[side]
    ids = {piece: id_ for id_, piece in enumerate(encoder.tokens)}
    return [*(ids.get(piece, encoder.unknown_id) for piece in line.split()), EOS_ID]


def padded(rows: list[list[int]]) -> np.ndarray:
    length = max(map(len, rows))
    return np.array([row + [0] * (length - len(row)) for row in rows])


@pytest.mark.integration
def test_log_probabilities_of_given_pairs(run):
    """Those of every token and of every line; scores.txt has five digits."""
    model = run.load_model().model
    sources = [ids_of(run, "inputs", line) for line in lines("test.spm.en")]
    targets = [ids_of(run, "targets", line) for line in lines("test.spm.de")]
    expected = [line.split(" ||| WordScores= ") for line in lines("scores.txt")]
    for start in range(0, len(sources), 100):
        batch = slice(start, start + 100)
        inputs, outputs = padded(sources[batch]), padded(targets[batch])
        found = tf.nn.log_softmax(model({"inputs": inputs, "targets": outputs})).numpy()
        for row, target, (total, words) in zip(found, targets[batch], expected[batch], strict=True):
            own = row[np.arange(len(target)), target]
            np.testing.assert_allclose(own, [float(word) for word in words.split()], atol=1e-4)
            assert abs(own.sum() - float(total)) < 1e-3


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "changes", "count"),
    [
        ("greedy.txt", "beam_size=1", 40),
        ("beam6_norm1.txt", "", 20),
        pytest.param("greedy.txt", "beam_size=1", 500, marks=pytest.mark.slow),
        pytest.param("beam6_norm1.txt", "", 500, marks=pytest.mark.slow),
    ],
)
def test_translations(run, tmp_path, name: str, changes: str, count: int):
    """By t2t-decoder from text to text, with the search of the model unless it is changed."""
    source, output = tmp_path / "in.en", tmp_path / "out.de"
    source.write_text("\n".join(lines("test.en")[:count]) + "\n", encoding="utf-8")
    flags = {"output_dir": run.folder, "decode_from_file": source, "decode_to_file": output}
    with pytest.raises(SystemExit) as end:
        t2t_decoder.main(
            [*(f"--{flag}={value}" for flag, value in flags.items()), f"--decode_hparams={changes}"]
        )
    assert end.value.code == 0
    pieces = sentencepiece.SentencePieceProcessor(str(FIXTURE / "target.spm"))
    expected = [pieces.decode(line.split()) for line in lines(name)[:count]]
    assert output.read_text(encoding="utf-8").splitlines() == expected
