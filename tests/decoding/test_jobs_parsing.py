"""A parser as users have it: its outputs are trees, scored by bracketing F1."""

import dataclasses
import pathlib
import re

import keras
import pytest

from support.commands import printed_by
from support.small_runs import make_run, save_weights
from t2t_lite import registry
from t2t_lite.bin import t2t_parseval
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.decoding import jobs
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.dataset_decoding import evaluate
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.loading import find_models, load_decoder
from t2t_lite.errors import DataError
from t2t_lite.problems.parsing import TreebankProblem
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text import trees

pytestmark = pytest.mark.integration

SUBJECTS = ["(NP-SBJ (DT the) (NN dog))", "(NP-SBJ (PRP she))", "(NP-SBJ (DT a) (JJ big) (NN cat))"]
VERBS = [
    "(VP (VBZ runs))",
    "(VP (VBZ sees) (NP (PRP him)))",
    "(VP (VBZ eats) (NP (NN raw\u2009fish)))",
]
SEED = 1
TREES = [f"( (S {subject} {verb} (. .)))" for subject in SUBJECTS for verb in VERBS]
COLLINS = "".join(f"DELETE_LABEL {label}\n" for label in ("TOP", ",", ":", "``", "''", "."))


@registry.register_problem("decoder_test_trees")
class SmallTreebank(TreebankProblem):
    approx_vocab_size = 290
    dataset_splits = ({"split": "train", "shards": 1}, {"split": "eval", "shards": 1})

    def trees(self, tmp_dir, dataset_split):
        return map(trees.normalise, trees.read_trees(pathlib.Path(tmp_dir, dataset_split)))


@pytest.fixture(scope="module")
def parser(tmp_path_factory) -> DecoderConfig:
    """A run folder of a parser that is not trained, whose trees have some right phrases."""
    folder = tmp_path_factory.mktemp("parser")
    (folder / "train").write_text("".join(f"{tree}\n" for tree in TREES * 4))
    (folder / "eval").write_text("".join(f"{tree}\n" for tree in TREES))
    data_dir = str(folder / "data")
    generate_data(registry.problem("decoder_test_trees"), data_dir, str(folder))
    sizes = {"num_hidden_layers": 1, "max_length": 64}
    run = make_run(folder / "run", "decoder_test_trees", data_dir=data_dir, **sizes)
    keras.utils.set_random_seed(SEED)
    model = run.build_model()
    for weight in model.weights:  # so large that the outputs differ from line to line
        weight.assign(3.0 * weight.value)
    save_weights(run.folder, model)
    return DecoderConfig(output_dir=str(run.folder))


def words_of(lines: list[str]) -> list[list[str]]:
    return [trees.parse_tree(line).words() for line in lines]


def printed(name: str, text: str) -> float:
    (number,) = re.findall(rf"^{name} += +(\S+)$", text, re.MULTILINE)[:1]
    return float(number)


def test_a_split_becomes_trees_and_t2t_parseval_gives_the_same_score(parser, tmp_path, capsys):
    """An evaluation during training scores as the command does."""
    search = "beam_size=1,extra_length=20"
    prefix = str(tmp_path / "x")
    loaded = load_decoder(dataclasses.replace(parser, decode_hparams=search), find_models(parser))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "load_decoder", lambda *_: loaded)
        jobs.run(dataclasses.replace(parser, decode_hparams=search, decode_to_file=prefix))
    report = capsys.readouterr().out
    data_dir = pathlib.Path(parser.output_dir).parent / "data"
    paths = registry.problem("decoder_test_trees").filepaths(str(data_dir), "eval")
    values = evaluate(loaded[0], paths).values
    scores = {"bracketing_f1", "bracketing_f1_of_all", "recall", "precision", "complete_match"}
    assert values.keys() > scores | {"tagging_accuracy", "well_formed"}
    assert 0 < values["bracketing_f1_of_all"] <= values["bracketing_f1"] < 100
    assert printed("Bracketing F1", report) == pytest.approx(values["bracketing_f1"], abs=0.005)
    files = {path.suffix[1:]: path for path in tmp_path.iterdir()}
    right = [str(trees.normalise(trees.parse_tree(tree))) for tree in TREES]
    assert files["targets"].read_text().splitlines() == right
    decodes = files["decodes"].read_text().splitlines()
    assert words_of(decodes) == words_of(right)
    assert re.search(
        r"^well-formed before repair: \S+ % \(\d of 9 outputs; \d+ repairs\)$", report, re.M
    )

    (tmp_path / "COLLINS.prm").write_text(f"{COLLINS}MAX_ERROR 99\n")
    arguments = {
        "gold": files["targets"],
        "test": files["decodes"],
        "param": tmp_path / "COLLINS.prm",
    }
    flags = (f"--{name}={path}" for name, path in arguments.items())
    table = printed_by(t2t_parseval.main, *flags)
    assert printed("Bracketing F1", report) == printed("Bracketing FMeasure", table)
    assert printed("Tagging accuracy", report) == printed("Tagging accuracy", table)


def test_a_file_becomes_trees_over_all_its_words_in_every_beam(parser, tmp_path, capsys):
    sentences = ["she sees him .", "", " unheard ( of\u2009it  ) ", "a big cat runs ."]
    (tmp_path / "in").write_text("".join(f"{sentence}\n" for sentence in sentences))
    gold = ["(ROOT (S-1 (NP (PRP she)) (VP (VBZ sees) (NP (PRP him)) (NP (-NONE- *))) (. .)))", ""]
    gold += ["(X (x unheard))", TREES[6]]
    (tmp_path / "ref").write_text("".join(f"{tree}\n" for tree in gold))
    search = "beam_size=2,extra_length=9,max_input_size=7,return_beams=1,write_beam_scores=1"
    config = dataclasses.replace(
        parser,
        decode_from_file=str(tmp_path / "in"),
        decode_to_file=str(tmp_path / "out"),
        decode_hparams=search,
        decode_reference=str(tmp_path / "ref"),
    )
    with pytest.raises(DataError, match=r"ref, line 3: word 2 is '' in the tree but '-LRB-' in"):
        jobs.run(config)
    assert not (tmp_path / "out").exists()

    gold[2] = "(X (x unheard) (x -LRB-) (x of\u2009it) (x -RRB-))"
    (tmp_path / "ref").write_text("".join(f"{tree}\n" for tree in gold))
    jobs.run(config)
    assert re.search(r"^well-formed before repair: .* of 3 outputs;", capsys.readouterr().out, re.M)
    first, empty, *others = (tmp_path / "out").read_text().splitlines()
    assert empty == ""
    for line, tree in zip([first, *others], [gold[0], *gold[2:]], strict=True):
        best, score, second, lower = line.split("\t")
        right = trees.normalise(trees.parse_tree(tree)).words()
        assert words_of([best, second]) == [right, right]
        assert float(score) >= float(lower)


def test_white_space_and_brackets_are_read_as_in_a_treebank(parser):
    parsing = Decoder.from_run(run_folder.RunFolder.open(parser.output_dir))
    (right,) = parsing.text.encode(["-LRB- she runs -RRB- ."])
    assert parsing.text.encode([" (  she\truns ) .\r"]) == [right]
    ((best, *_),) = parsing.decode([right])
    assert best.output.repairs == 0
    assert words_of([best.output.text]) == [right.text.split()]


def test_sentences_are_not_split_where_that_would_split_trees():
    assert not registry.problem("decoder_test_trees").can_split_sources
    assert registry.problem("decoder_test_trees_rev").can_split_sources
    assert not registry.problem("algorithmic_reverse_decimal40").can_split_sources


def test_the_papers_search_is_the_default_of_parsing_alone():
    problem = registry.problem("decoder_test_trees")
    assert DecodeHParams.of(problem) == DecodeHParams(
        beam_size=21, alpha=0.3, extra_length=300, well_formed=True
    )
    changed = DecodeHParams.of(problem, "extra_length=7,beam_size=2")
    assert changed == DecodeHParams(beam_size=2, alpha=0.3, extra_length=7, well_formed=True)
    assert DecodeHParams.of(registry.problem("text2text_tmpdir")) == DecodeHParams()
