"""The rule of what to train on data: its edges, and the kinds of data of which it says nothing."""

import itertools

import pytest

from support.registries import restored
from t2t_lite import registry
from t2t_lite.data.generation import choosing
from t2t_lite.data.generation.choosing import OF_PROBLEM, PAIRS, Advice
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.text.subword_text_encoder import SubwordTextEncoder
from t2t_lite.text.text_encoder import ByteTextEncoder, ClassLabelEncoder, VocabType

CHOICES = [*(row.choice for row in PAIRS), choosing.TREES.choice, choosing.LABELS]
ALL = [*CHOICES, *filter(None, OF_PROBLEM.values())]
MOST = [row.most for row in PAIRS]
OWN = ["text2text_tmpdir", "text2text_tmpdir_bpe", "text2text_tmpdir_unigram"]


class Sized(SubwordTextEncoder):
    """A vocabulary of subwords that has a size alone."""

    def __init__(self, size: int) -> None:
        self._size = size

    @property
    def vocab_size(self) -> int:
        return self._size


@pytest.fixture
def advice(monkeypatch):
    """Returns what is said of a problem, a number of examples and the size of a vocabulary."""

    def advise(name: str, examples: int, size: int = 8000) -> Advice | None:
        problem = registry.problem(name)
        encoders = dict.fromkeys(("inputs", "targets"), Sized(size))
        monkeypatch.setattr(type(problem), "existing_filepaths", lambda *_: [])
        monkeypatch.setattr(type(problem), "feature_encoders", lambda *_: encoders)
        monkeypatch.setattr(choosing, "count_records", lambda _: examples)
        return choosing.advise(problem, "data")

    return advise


@pytest.mark.parametrize("choice", ALL, ids=lambda choice: choice.hparams_set)
def test_a_choice_names_a_model_and_a_set_of_its_kind(choice):
    registry.require_model(choice.model)
    assert choice.model.startswith("transformer")
    assert isinstance(registry.hparams(choice.hparams_set), TransformerHParams)


@pytest.mark.parametrize("choice", ALL, ids=lambda choice: choice.hparams_set)
def test_a_rate_that_falls_to_0_is_there_with_the_last_update(choice):
    hparams = registry.hparams(choice.hparams_set)
    assert hparams.learning_rate_end in (None, choice.train_steps)


def test_more_pairs_never_get_less():
    assert sorted(MOST) == MOST
    assert len(set(MOST)) == len(MOST)
    assert MOST[-1] == float("inf")
    sizes = []
    for row in PAIRS:
        hparams = registry.hparams(row.choice.hparams_set)
        weights = hparams.num_hidden_layers * hparams.hidden_size * hparams.filter_size
        sizes.append((row.choice.subwords, row.choice.train_steps, weights, hparams.batch_size))
    for figures in zip(*sizes, strict=True):
        assert list(figures) == sorted(figures)


@pytest.mark.parametrize(("row", "following"), [*itertools.pairwise(PAIRS)])
def test_a_limit_belongs_to_the_row_before_it(row, following):
    assert choosing.for_pairs(row.most) == row.choice
    assert choosing.for_pairs(row.most + 1) == following.choice


@pytest.mark.parametrize(
    ("pairs", "index"), [(0, 0), (5000, 0), (30_000, 1), (150_000, 2), (4_500_000, 3)]
)
def test_the_sizes_of_the_guide(pairs, index):
    assert choosing.for_pairs(pairs) == PAIRS[index].choice


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("form", ["", "_rev"])
@pytest.mark.parametrize("row", PAIRS)
def test_own_text_has_a_problem_with_each_vocabulary(name, form, row):
    found = choosing.other_vocabulary(registry.problem(name + form), row.choice.subwords)
    problem = registry.problem(found)
    assert problem.approx_vocab_size in (row.choice.subwords, 2**15)
    assert problem.was_reversed == bool(form)
    assert found.startswith(name)
    assert row.choice.subwords > 8000 or problem.vocab_type != VocabType.SUBWORD
    if name != "text2text_tmpdir":
        assert problem.vocab_type == registry.problem(name).vocab_type


@pytest.mark.parametrize(
    ("name", "subwords", "found"),
    [
        ("translate_ende_wmt32k", 8000, "translate_ende_wmt8k"),
        ("translate_enzh_wmt8k_rev", 32_000, "translate_enzh_wmt32k_rev"),
        ("text2text_tmpdir_bpe2k", 8000, "text2text_tmpdir_bpe"),
        ("text2text_tmpdir_unigram32k", 8000, "text2text_tmpdir_unigram"),
        ("translate_ende_wmt14_bpe37k", 2000, ""),
        ("translate_ende_multi30k", 2000, ""),
    ],
)
def test_another_vocabulary_is_for_the_same_text(name, subwords, found):
    assert choosing.other_vocabulary(registry.problem(name), subwords) == found


@pytest.mark.parametrize(
    ("name", "subwords", "found"),
    [
        ("zoo32k", 8000, "zoo6k"),
        ("zoo32k", 4000, "zoo6k"),
        ("zoo6k", 13_000, "zoo_bpe12k"),
        ("zoo_bpe12k", 8000, "zoo_bpe12k"),
        ("zoo6k", 16_000, "zoo32k"),
    ],
)
def test_of_vocabularies_of_its_own_type_the_nearest(name, subwords, found):
    with restored():
        for other in ("zoo6k", "zoo32k", "zoo_bpe12k"):
            is_bpe = "bpe" in other
            members = {
                "vocab_type": VocabType.SENTENCEPIECE_BPE if is_bpe else VocabType.SUBWORD,
                "approx_vocab_size": int(other.removeprefix("zoo").strip("_bpek")) * 1000,
                "generate_samples": None,
            }
            registry.register_problem(other)(type(other, (Text2TextProblem,), members))
        assert choosing.other_vocabulary(registry.problem(name), subwords) == found


@pytest.mark.parametrize(
    ("name", "examples", "size", "is_other_size", "better"),
    [
        ("text2text_tmpdir_bpe", 5000, 8000, False, ""),
        ("text2text_tmpdir_bpe32k_rev", 5000, 17_000, True, "text2text_tmpdir_bpe_rev"),
        ("text2text_tmpdir_unigram32k", 5000, 17_000, True, "text2text_tmpdir_unigram"),
        ("text2text_tmpdir", 5000, 17_000, True, "text2text_tmpdir_bpe"),
        # The text is too small for more.
        ("text2text_tmpdir_bpe", 90, 300, False, ""),
        ("text2text_tmpdir_bpe32k", 5000, 9000, False, ""),
        ("text2text_tmpdir_bpe2k", 285, 527, False, ""),
        ("text2text_tmpdir_bpe2k", 5000, 2000, True, "text2text_tmpdir_bpe"),
        # No problem would make a smaller one than this says.
        ("text2text_tmpdir_bpe", 5000, 17_000, False, ""),
        ("text2text_tmpdir_bpe", 30_000, 8000, False, ""),
        ("text2text_tmpdir_bpe2k", 30_000, 2000, True, "text2text_tmpdir_bpe"),
        ("translate_ende_multi30k", 29_000, 10_000, False, ""),
        ("translate_ende_libreoffice", 33_000, 16_000, False, ""),
        ("translate_enid_iwslt32k", 90_000, 32_768, True, ""),
        ("text2text_tmpdir_bpe", 10**7, 8000, True, "text2text_tmpdir_bpe32k"),
        ("translate_ende_wmt14_bpe37k", 4_500_000, 37_000, False, ""),
        # Sets of their own, which fit the vocabulary.
        ("translate_ende_locale", 29_000, 2000, False, ""),
    ],
)
def test_vocabularies_of_another_size_are_noticed(
    advice, name, examples, size, is_other_size, better
):
    found = advice(name, examples, size)
    assert found[:2] == (examples, size)
    assert found[3:] == (is_other_size, better)


@pytest.mark.parametrize(
    ("name", "examples", "hparams_set", "model"),
    [
        ("translate_ende_locale", 29_000, "transformer_quickstart3", "transformer"),
        ("translate_enfr_locale2_rev", 29_000, "transformer_quickstart2", "transformer"),
        ("sentiment_imdb", 25_000, "transformer_tiny", "transformer_encoder"),
        ("text2real_tmpdir", 5000, "transformer_tiny", "transformer_regressor"),
        ("parsing_treebank_sample_phrases", 3000, "transformer_treebank2", "transformer"),
        ("translate_enja_libreoffice", 20_000, "transformer_multi30k_prenorm", "transformer"),
        ("translate_enzh_wmt32k", 250_000, "transformer_pairs150k", "transformer"),
    ],
)
def test_kinds_of_problems(advice, name, examples, hparams_set, model):
    choice = advice(name, examples).choice
    assert (choice.hparams_set, choice.model) == (hparams_set, model)


@pytest.mark.parametrize(
    ("name", "examples"),
    [
        ("quality_tmpdir", 30_000),  # what the translator is, is not known
        ("text2self_tmpdir_bpe", 30_000),
        ("plain_text_tmpdir", 30_000),
        ("summarize_cnn_dailymail32k", 30_000),
        ("parsing_craft", 18_000),
        ("text2text_tmpdir_bpe_copy", 30_000),
        ("text2text_tmpdir_bpe+text2text_tmpdir_bpe_rev", 30_000),
        ("translate_many_libreoffice", 30_000),
    ],
)
def test_nothing_is_said_where_nothing_is_known(advice, name, examples):
    assert advice(name, examples) is None


def test_only_subwords_have_a_rule():
    """Symbols, labels, bytes and the vocabularies of imported models have none."""
    problem = registry.problem("text2text_tmpdir_bpe")
    assert choosing.choose(problem, 5000, [Sized(8000), ByteTextEncoder()]) is None
    assert choosing.choose(problem, 5000, [Sized(8000), Sized(8000)]) == PAIRS[0].choice
    labels = [ByteTextEncoder(), ClassLabelEncoder(["neg", "pos"])]
    assert choosing.choose(registry.problem("sentiment_imdb_characters"), 5000, labels) is None
    symbols = registry.problem("algorithmic_reverse_binary40")
    encoders = symbols.get_feature_encoders("").values()
    assert choosing.choose(symbols, 5000, encoders) is None


def test_problems_that_write_their_files_themselves_are_left_alone():
    class Written(Text2TextProblem):
        def write_files(self, data_dir, tmp_dir, options):
            raise AssertionError

        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            raise AssertionError

    assert choosing.advise(Written(), "nowhere") is None


@pytest.mark.parametrize(
    "changes",
    [{"metrics": ()}, {"dataset_splits": [{"split": DatasetSplit.TEST, "shards": 1}]}],
    ids=["metrics", "splits"],
)
def test_problems_without_metrics_or_training_text_are_left_alone(changes, advice, monkeypatch):
    for name, value in changes.items():
        monkeypatch.setattr(type(registry.problem("text2text_tmpdir_bpe")), name, value)
    assert advice("text2text_tmpdir_bpe", 30_000) is None
