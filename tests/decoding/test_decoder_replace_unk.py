"""Unknown tokens of an output, replaced by the source tokens that they attend to."""

import keras
import numpy as np
import pytest

from support.small_models import set_logits
from t2t_lite import registry
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.tensorflow_engine import TensorFlowEngine
from t2t_lite.errors import UsageError
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_encoder import ByteTextEncoder, TokenTextEncoder

TOKENS = ["<pad>", "<EOS>", "<UNK>", "a", "b", "c"]
UNKNOWN = 2
LINES = ["a Qua b Zut", "Zut", "a b c", "Om Qua c c a"]


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokens") / "vocab"
    path.write_text("".join(f"{token}\n" for token in TOKENS))
    return TokenTextEncoder(path, oov_token="<UNK>")


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(4)
    hparams = registry.hparams("lstm_luong_attention").copy(hidden_size=16)
    model = registry.model("lstm_seq2seq_attention")(hparams, len(TOKENS), len(TOKENS))
    for i, variable in enumerate(model.trainable_variables):
        variable.assign(np.random.RandomState(i).normal(size=variable.shape))
    matrix = model.softmax_embedding.matrix.numpy()
    bias = np.array([-1e9, 1, 3, 0, 0, 0], np.float32)  # no padding, and many unknown tokens
    set_logits(model, lambda hidden: hidden @ matrix.T + bias)
    return model


def decode(model, encoders, **changes):
    problem = registry.problem("text2text_tmpdir_tokens")
    both = dict(zip(("inputs", "targets"), encoders, strict=True))
    engine = TensorFlowEngine(model, both, DecodeHParams(extra_length=4, min_length=4, **changes))
    decoder = Decoder(engine, problem, with_details=not changes)
    return decoder.decode(decoder.text.encode(LINES))


@pytest.mark.integration
def test_the_source_token_with_most_attention_stands_for_an_unknown_one(model, tokens):
    before = decode(model, (tokens, tokens))
    after = decode(model, (tokens, tokens), replace_unk=True)
    replaced = 0
    for line, (old, *_), (new, *_) in zip(LINES, before, after, strict=True):
        words = line.split()
        expected = [
            words[np.argmax(row[:-1])] if id_ == UNKNOWN else TOKENS[id_]  # not the source's EOS
            for id_, row in zip(old.ids, old.details.attention, strict=False)
        ]
        assert new.ids == old.ids
        assert new.output.text.split() == expected
        assert new.details is None
        replaced += sum(id_ == UNKNOWN for id_ in old.ids)
    assert replaced >= 3
    assert any(set(hs[0].output.text.split()) & {"Qua", "Zut", "Om"} for hs in after)


@pytest.mark.integration
def test_a_source_of_another_vocabulary_gives_its_own_tokens(model, tokens):
    class FewBytes(ByteTextEncoder):
        def encode(self, text):
            return [2 + byte % 4 for byte in text.encode()]

        def decode(self, ids):
            return "".join(f"<{i}>" for i in ids)

    found = decode(model, (FewBytes(), tokens), replace_unk=True, beam_size=1)
    outputs = [hs[0] for hs in found]
    texts = [h.output.text.split() for h in outputs if UNKNOWN in h.ids]
    assert texts
    for words in texts:
        assert "<UNK>" not in words
        assert {*words} - {*TOKENS} <= {"<2>", "<3>", "<4>", "<5>"}


def test_a_vocabulary_without_unknown_tokens_is_refused(model, tokens):
    with pytest.raises(UsageError, match="replace_unk=true: the target vocabulary has no token"):
        decode(model, (tokens, ByteTextEncoder()), replace_unk=True)
