"""What t2t-score-pairs writes: scores by brute force; kills; other files and models; refusals."""

import contextlib
import dataclasses
import itertools
import json
import math
import pathlib
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import copying  # registers problems of bytes
from support.commands import Killed, exit_code, refusal
from support.small_runs import make_run, save_weights
from support.texts import write_lines
from t2t_lite import kept_work, registry
from t2t_lite.bin import t2t_score_pairs
from t2t_lite.data.problem import Output
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.decoding.batch_journal import OutputLine
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.study.distillation import scores_job
from t2t_lite.study.distillation.scores_config import ScoresConfig
from t2t_lite.study.distillation.scores_job import explained
from t2t_lite.text.text_encoder import EOS_ID, VocabType
from t2t_lite.text.text_files import read_lines

CPU = DecoderConfig(worker_gpu=0)
PAIRS = [
    ("the cat sleeps", "die Katze schläft"),
    ("so", "ja"),
    ("", "nichts"),
    ("a dog runs very fast indeed, and on and on", "ein Hund"),
    ("nothing", ""),
    ("a line\nof two", "eine Zeile"),
    ("so it is", "so ist es"),
]


@registry.register_problem("scores_test_pairs")
class Pairs(Text2TextProblem):
    vocab_type = VocabType.CHARACTER
    is_generate_per_split = True
    pairs = PAIRS

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for source, target in self.pairs:
            yield {"inputs": source, "targets": target}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[str]:
    """The run folders of a model from bytes to bytes, and of another."""
    folder = tmp_path_factory.mktemp("runs")
    found = []
    for number, name in enumerate(("forward", "backward")):
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "filter_size": 16}
        opened = make_run(folder / name, "decoder_test_bytes", **sizes)
        model = opened.build_model()
        random = np.random.default_rng(number)
        for variable in model.trainable_variables:
            noise = random.normal(size=variable.shape, scale=1.0 / variable.shape[0] ** 0.5)
            variable.assign(noise + (variable.name == "gamma"))
        save_weights(opened.folder, model)
        found.append(str(opened.folder))
    return found


@pytest.fixture
def config(runs, tmp_path) -> ScoresConfig:
    return ScoresConfig(
        problem="scores_test_pairs",
        tmp_dir=str(tmp_path / "raw"),
        forward=runs[0],
        backward=f"{runs[1]}/7",
        pair_scores=str(tmp_path / "out/scores.txt"),
    )


def scored(config: ScoresConfig) -> list[float]:
    scores_job.run(config, CPU)
    return [float(line) for line in read_lines(config.pair_scores)]


def entropy(model: Seq2Seq, source: str, target: str) -> float:
    """Returns the cross-entropy of a token of the target, from the logits of this pair alone."""
    ids = [np.array([[*copying.BYTES["inputs"].encode(text), EOS_ID]]) for text in (source, target)]
    logits = np.asarray(model({"inputs": ids[0], "targets": ids[1]}), np.float64)[0]
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -float(np.mean([row[i] for row, i in zip(log_probs, ids[1][0], strict=True)]))


# ---- what one side explains of the other

_ENTROPY = st.just(0.0) | st.floats(1e-3, 30)


@given(st.lists(st.tuples(_ENTROPY, _ENTROPY), min_size=1, max_size=9))
def test_the_explained_share_by_brute_force(entropies):
    own, of_other = map(np.array, zip(*entropies, strict=True))
    mean = sum(of_other) / len(of_other)
    for share, (a, b) in zip(explained(own, of_other), entropies, strict=True):
        expected = (b + mean) / 2
        assert share == pytest.approx(1 - a / expected if expected else 0)


@pytest.mark.parametrize(
    ("own", "of_other", "shares"),
    [
        ([0, 4, 8], [4, 4, 4], [1, 0, -1]),
        ([2, 6], [8, 4], [1 - 2 / 7, 1 - 6 / 5]),
        ([2, 2], [math.inf, 4], [0.5, 0.5]),  # the other pair's source has no ids
        ([math.inf, 2], [4, 4], [-math.inf, 0.5]),
        ([3], [math.inf], [0]),
        ([0, 0], [0, 0], [0, 0]),
    ],
)
def test_explained_shares_by_hand(own, of_other, shares):
    found = explained(np.array(own, np.float64), np.array(of_other, np.float64))
    assert found.tolist() == pytest.approx(shares)


# ---- the file


@pytest.mark.integration
def test_each_pair_has_the_score_that_it_has_alone(config, runs, capsys):
    whole = [tuple(side.replace("\n", " ") for side in pair) for pair in PAIRS if all(pair)]
    assert len(whole) == 5
    others = whole[2:] + whole[:2]
    directions = []
    for run, (x, y) in zip(runs, ((0, 1), (1, 0)), strict=True):
        model, *_ = RunFolder.open(run).load_model()
        own = [entropy(model, pair[x], pair[y]) for pair in whole]
        of_other = [
            entropy(model, other[x], pair[y]) for pair, other in zip(whole, others, strict=True)
        ]
        mean = sum(of_other) / 5
        directions.append([1 - 2 * a / (b + mean) for a, b in zip(own, of_other, strict=True)])
    expected = map(min, *directions)
    found = scored(config)
    assert found == pytest.approx([next(expected) if all(p) else -1 for p in PAIRS], abs=2e-5)
    assert len({*found}) == 6  # the two with an empty side have one score
    printed = capsys.readouterr().out
    assert printed.startswith("scored 7 pairs: 1% below -1.00, 5% below -1.00, 10% below -1.00, ")
    out = pathlib.Path(config.pair_scores).parent
    assert {path.name for path in out.iterdir()} == {"scores.txt", "scores.txt.origin.json"}


def test_a_text_of_empty_sides(config, monkeypatch):
    monkeypatch.setattr(Pairs, "pairs", [("", "a"), ("b", "\u200b")])
    assert scored(config) == [-1, -1]


@pytest.mark.integration
def test_a_side_that_is_too_long_for_a_model_has_the_least_score(config, monkeypatch):
    pairs = [("one two", "eins zwei"), ("a " * 2049, "b"), ("three", "ä" * 2049), ("four", "vier")]
    monkeypatch.setattr(Pairs, "pairs", pairs)
    assert [score == -1 for score in scored(config)] == [False, True, True, False]


@pytest.mark.integration
def test_a_kill_costs_nothing_scored(config, tmp_path, monkeypatch):
    def die(*args, **fields):
        raise Killed

    def no_batch(self, sources, targets, name, known):
        assert known, "the batches that a killed run finished are known"
        return iter(())

    calm = scored(dataclasses.replace(config, pair_scores=str(tmp_path / "calm.txt")))
    with monkeypatch.context() as patch:
        patch.setattr(kept_work, "write_record", die)
        with pytest.raises(Killed):
            scored(config)
    assert not pathlib.Path(config.pair_scores).exists()
    with monkeypatch.context() as patch:
        patch.setattr("t2t_lite.decoding.decoder.Decoder.score_batches", no_batch)
        assert scored(config) == calm
    config = dataclasses.replace(config, pair_scores=str(tmp_path / "other.txt"))
    other = dataclasses.replace(config, forward=config.backward)
    with monkeypatch.context() as patch:
        patch.setattr(kept_work, "write_record", die)
        with pytest.raises(Killed):
            scored(other)
    assert scored(config) == calm  # the journal of another model is of no use


@pytest.mark.integration
def test_a_complete_file_is_kept_and_one_of_another_origin_refused(config, monkeypatch):
    first = scored(config)
    named = dataclasses.replace(config, forward=f"{config.forward}/model.ckpt-7")
    with monkeypatch.context() as patch:
        patch.setattr("t2t_lite.decoding.jobs.decoded", None)
        assert scored(named) == first
    for changes, name in (
        ({"forward": config.backward}, "forward"),
        ({"backward": config.forward}, "backward"),
    ):
        with pytest.raises(UserError, match=rf"scores.txt was made from something .*\({name}\): r"):
            scored(dataclasses.replace(config, **changes))
    with monkeypatch.context() as patch:
        patch.setattr(Pairs, "pairs", PAIRS[1:])
        with pytest.raises(UserError, match=r"\(text, empty\): remove it"):
            scored(config)
        patch.setattr(Pairs, "pairs", [("", "a"), *PAIRS])
        with pytest.raises(UserError, match=r"\(empty\): remove it"):
            scored(config)
    assert not list(pathlib.Path(config.pair_scores).parent.glob("*.part*"))
    pathlib.Path(f"{config.pair_scores}.origin.json").unlink()
    with pytest.raises(UserError, match=r"already exists, without scores\.txt\.origin\.json"):
        scored(config)


def test_a_model_of_the_wrong_direction_is_refused(config, tmp_path):
    write_lines(tmp_path / "vocab.text2text_tmpdir_tokens.tokens", ["<pad>", "<EOS>", "<UNK>"])
    (tmp_path / "raw").mkdir()
    for side in ("inputs", "targets"):
        write_lines(tmp_path / f"raw/{side}.train.txt", ["a b"] * 30)
    runs = []
    for form in ("", "_rev"):
        opened = make_run(
            tmp_path / f"run{form}", f"text2text_tmpdir_tokens{form}", data_dir=tmp_path
        )
        save_weights(opened.folder, opened.build_model())
        runs.append(str(opened.folder))
    for problem, (forward, backward) in itertools.product(
        ("text2text_tmpdir_tokens", "text2text_tmpdir_tokens_rev"), itertools.product(runs, runs)
    ):
        named = dataclasses.replace(config, problem=problem, forward=forward, backward=backward)
        is_right = [forward, backward] == (runs[::-1] if problem.endswith("_rev") else runs)
        if not is_right:
            with pytest.raises(UsageError, match=r"ward needs one of the other direction"):
                scored(named)
            assert not list(pathlib.Path(config.pair_scores).parent.glob("scores.txt"))


def test_the_backward_model_reads_the_sides_exchanged(config, monkeypatch):
    seen = []

    @contextlib.contextmanager
    def decoded(search, trained):
        paths = search.decode_from_file, search.score_file
        hparams = search.search_settings(trained[0].run)
        languages = hparams.source_language, hparams.target_language
        seen.append([*(read_lines(path) for path in paths), *languages])
        yield types.SimpleNamespace(lines=lambda: [OutputLine("-1", Output(""))] * 2)

    monkeypatch.setattr("t2t_lite.decoding.jobs.decoded", decoded)
    monkeypatch.setattr(Pairs, "pairs", [("a", "x"), ("b", "y")])
    scored(dataclasses.replace(config, source_language="en", target_language="de"))
    assert seen == [
        [["a", "b"], ["x", "y"], "en", "de"],
        [["b", "a"], ["x", "y"], "en", "de"],
        [["x", "y"], ["a", "b"], "de", "en"],
        [["y", "x"], ["a", "b"], "de", "en"],
    ]


@pytest.mark.integration
def test_lines_that_cannot_be_read_have_no_score_with_skip_bad(config, monkeypatch):
    def samples(self, data_dir, tmp_dir, dataset_split):
        yield {"inputs": "so", "targets": "ja"}
        self.bad_input(DataError("line 2: not UTF-8"))
        yield {"inputs": "so it is", "targets": "so ist es"}

    monkeypatch.setattr(Pairs, "generate_samples", samples)
    with pytest.raises(DataError, match="line 2"):
        scored(config)
    assert len(scored(dataclasses.replace(config, skip_bad=True))) == 2


def test_other_problems_than_pairs_are_refused(config):
    for name, reason in (
        ("sentiment_imdb", "this command reads only pairs of text"),
        ("translate_many_libreoffice", "name one of .* --source_language=CODE and --target_lang"),
    ):
        with pytest.raises(UsageError, match=f"--problem={name}.*{reason}"):
            scored(dataclasses.replace(config, problem=name))


def test_a_text_without_pairs(config, monkeypatch):
    monkeypatch.setattr(Pairs, "pairs", [])
    with pytest.raises(DataError, match=r"scores_test_pairs has no training pairs in .*raw"):
        scored(config)


# ---- the command


def test_the_flags_reach_the_job(monkeypatch):
    calls = []
    monkeypatch.setattr(scores_job, "run", lambda *args: calls.append(args))
    flags = ("--problem=text2text_tmpdir", "--forward=f", "--backward=b", "--pair_scores=s")
    assert exit_code(t2t_score_pairs.main, *flags, "--engine=ctranslate2", "--worker_gpu=0") == 0
    ((config, search),) = calls
    assert (config.forward, config.backward, config.pair_scores) == ("f", "b", "s")
    assert (search.engine, search.worker_gpu) == ("ctranslate2", 0)
    for number, flag in enumerate(flags):
        name = flag.partition("=")[0]
        others = [*flags[:number], *flags[number + 1 :]]
        assert f"{name} is missing" in refusal(t2t_score_pairs.main, *others)


@pytest.mark.integration
def test_the_record_names_models_by_their_contents(config):
    scored(config)
    made = json.loads(pathlib.Path(f"{config.pair_scores}.origin.json").read_text())["origin"]
    assert set(made) == {"text", "empty", "forward", "backward", "languages", "engine"}
    assert made["forward"] != made["backward"]
