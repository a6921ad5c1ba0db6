"""References that are read from records, which have ids and no text."""

import logging
import types

import pytest

from support.codecs import codec_of
from t2t_lite import registry
from t2t_lite.data import records
from t2t_lite.data.problem import Output
from t2t_lite.decoding.dataset_decoding import read_examples
from t2t_lite.decoding.long_lines import Cutter
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.interop.t2t import text_encoder as t2t_encoders
from t2t_lite.interop.t2t.adapted_encoder import AdaptedEncoder
from t2t_lite.metrics.by_name import score_outputs
from t2t_lite.text.text_encoder import EOS_ID, TokenTextEncoder

KNOWN = ["die", "katze", "sitzt", "auf", "der", "matte"]
TEXT = ["die katze jagt auf der wiese", "quer sitzt die katze", "auf der matte"]
WITH_UNKNOWN = ["die katze <UNK> auf der <UNK>", "<UNK> sitzt die katze", "auf der matte"]


def _ours(path):
    return TokenTextEncoder(path, oov_token="<UNK>")


def _t2ts(path):
    return t2t_encoders.TokenTextEncoder(str(path), replace_oov="<UNK>")


def _of_another_size(path):
    return AdaptedEncoder(_t2ts(path), 100)


@pytest.fixture(params=[_ours, _t2ts, _of_another_size])
def split(request, tmp_path):
    """A decoder whose vocabulary lacks words, and the file of a split."""
    (tmp_path / "tokens").write_text("".join(f"{word}\n" for word in ("<UNK>", *KNOWN)))
    encoder = request.param(tmp_path / "tokens")
    problem = registry.problem("text2text_tmpdir_tokens")
    codec = codec_of(problem, {"inputs": encoder, "targets": encoder})
    path = tmp_path / "dev"
    ids = [[*encoder.encode(line), EOS_ID] for line in TEXT]
    records.write_examples(path, [{"inputs": line, "targets": line} for line in ids])
    engine = types.SimpleNamespace(model_hparams=BasicHParams())
    cutter = Cutter(codec, "split")
    return types.SimpleNamespace(problem=problem, text=codec, cutter=cutter, engine=engine), [
        str(path)
    ]


def score(metric, outputs, references):
    return score_outputs(metric, list(map(Output, outputs)), references).values[metric]


@pytest.mark.integration
@pytest.mark.parametrize(
    "metric", ["bleu", "bleu_zh", "rouge_1", "rouge_l", "exact_match", "token_accuracy"]
)
def test_an_unknown_word_of_a_reference_counts_as_wrong(split, metric):
    _, references = read_examples(*split)
    found = score(metric, WITH_UNKNOWN, references)
    assert found == score(metric, WITH_UNKNOWN, TEXT)
    copied = [WITH_UNKNOWN[0].replace("<UNK>", "jagt", 1), *WITH_UNKNOWN[1:]]
    assert score(metric, copied, references) >= found, "replace_unk never costs anything"


def test_the_letters_of_an_unknown_word_are_wrong(split):
    _, references = read_examples(*split)
    assert score("chrf", WITH_UNKNOWN, references) < 80 < score("chrf", WITH_UNKNOWN, WITH_UNKNOWN)


def test_the_words_that_are_known_are_the_text(split):
    sources, references = read_examples(*split)
    assert [source.text for source in sources] == WITH_UNKNOWN
    assert references[2] == TEXT[2]
    assert [len(line.split()) for line in references] == [6, 4, 3]
    assert not {"<UNK>", *TEXT[0].split()[2::3]} & {*references[0].split()}
    assert references[0].split()[:2] == ["die", "katze"]


def test_the_unknown_words_are_counted_once(split, caplog):
    caplog.set_level(logging.INFO)
    read_examples(*split)
    read_examples(*split)
    (message,) = caplog.messages
    assert message.startswith("3 of 13 reference words are not in the vocabulary: they count as wr")
