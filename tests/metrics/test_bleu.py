"""BLEU is sacreBLEU's, with its signature."""

import functools

import pytest
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

from support.rounding import assert_close
from t2t_lite.errors import DataError
from t2t_lite.metrics.bleu import SentenceBleu, compound_split_bleu, corpus_bleu, likeness_bleu

# Four logarithms of shares in per cent, their mean, exp, and the brevity penalty.
assert_bleu = functools.partial(assert_close, terms=16, dtype="float64")


def test_identical_texts_score_100():
    lines = ["The quick brown fox jumps over the lazy dog.", "It is quick, isn't it?"]
    assert_bleu(corpus_bleu(lines, lines).score, 100)


def test_score_by_hand():
    # n-gram precisions 5/6, 3/5, 1/4, and 0/3 smoothed to 1/(2·3); no brevity penalty.
    bleu = corpus_bleu(["the cat sat on a mat"], ["the cat sat in a mat"])
    assert_bleu(bleu.score, 100 * (5 / 6 * 3 / 5 * 1 / 4 * 1 / 6) ** 0.25)


def test_short_output_is_penalised():
    # All n-grams are right; brevity penalty exp(1 - 8/4).
    bleu = corpus_bleu(["a b c d"], ["a b c d e f g h"])
    assert_bleu(bleu.score, 100 * 2.718281828459045 ** (1 - 8 / 4))


def test_case_matters_by_default():
    hypotheses, references = ["THE CAT SAT ON IT"], ["the cat sat on it"]
    cased, uncased = (corpus_bleu(hypotheses, references, lowercase=low) for low in (False, True))
    assert cased.score < 1
    assert_bleu(uncased.score, 100)
    assert "case:mixed" in cased.signature
    assert "case:lc" in uncased.signature


def test_the_signature_states_tokenization_and_smoothing():
    signature = corpus_bleu(["a"], ["a"]).signature
    assert "nrefs:1" in signature
    assert "tok:13a" in signature
    assert "smooth:exp" in signature


def test_counts_must_agree():
    with pytest.raises(DataError, match="2 hypotheses but 1 references"):
        corpus_bleu(["a", "b"], ["a"])


def test_nothing_to_score_is_an_error():
    with pytest.raises(DataError, match="no sentences"):
        corpus_bleu([], [])


@pytest.mark.parametrize(
    ("line", "tokenization"),
    [
        ("Zwei Wörter", "13a"),
        ("die Katze 猫 schläft", "13a"),
        ("猫在屋顶上睡觉。", "char"),
        ("ネコが屋根で寝ている。", "char"),
        ("แมวนอนบนหลังคา", "char"),
    ],
)
def test_equal_lines_are_alike_in_any_script(line, tokenization):
    bleu = likeness_bleu([line], [line])
    assert_bleu(bleu.score, 100)
    assert f"tok:{tokenization}|" in bleu.signature


def test_lines_without_spaces_are_alike_by_their_characters():
    # Of 20 characters, the last one but two differs.
    outputs, expected = (
        ["一二三四五六七八九十百千万亿兆京上左中右"],
        ["一二三四五六七八九十百千万亿兆京上下中右"],
    )
    shares = 19 / 20 * 17 / 19 * 15 / 18 * 14 / 17
    assert_bleu(likeness_bleu(outputs, expected).score, 100 * shares**0.25)


def test_compound_split_bleu_counts_parts_of_compounds():
    hypothesis = ["und und und das Roll-out war ein Erfolg"]
    reference = ["und und und das Roll-in war ein Erfolg"]
    bleu = compound_split_bleu(hypothesis, reference)
    # und und und das Roll ##AT##-##AT## out war ein Erfolg: all but what holds "out" is right.
    assert_bleu(bleu.score, 100 * (9 / 10 * 7 / 9 * 5 / 8 * 3 / 7) ** 0.25)
    assert "tok:13a+compounds|smooth:none" in bleu.signature
    assert bleu.score > corpus_bleu(hypothesis, reference).score


def test_compound_split_bleu_takes_quotation_marks_for_alike():
    lines = ["„So nicht“, sagte er. »Nie!«", "‚Gut‘ so"]
    plain = ['"So nicht", sagte er. "Nie!"', "'Gut' so"]
    assert_bleu(compound_split_bleu(lines, plain).score, 100)


def test_compound_split_bleu_needs_pairs():
    with pytest.raises(DataError, match="1 hypotheses but 2 references"):
        compound_split_bleu(["a"], ["a", "b"])


def test_keeps_no_line_that_it_has_scored():
    corpus_bleu(["a line to forget"], ["a line"])
    compound_split_bleu(["a well-known line"], ["a line"])
    assert Tokenizer13a.__call__.cache_info().currsize == 0
    assert TokenizerRegexp.__call__.cache_info().currsize == 0


def test_the_nearest_sentence():
    """Sentences of fewer than four words, too; the first of equals."""
    bleu = SentenceBleu()
    hypotheses = ["So it is.", "It is so.", "it is"]
    assert bleu.nearest(hypotheses, "It is so!") == "It is so."
    assert bleu.nearest(["no", "none"], "yes") == "no"


def test_the_nearest_sentence_by_the_tokenizer_of_the_language():
    texts = ["我爱你们", "他们恨我"]
    assert SentenceBleu("zh").nearest(texts[::-1], "我爱你") == texts[0]
