"""T2T's translation from English to Indonesian, Vietnamese, Macedonian and Setswana.

See `translate` for the archives. Sizes and checksums are those of the files in the repositories.
Each corpus has a licence of its own, at its address.
"""

from t2t_lite import registry
from t2t_lite.data.corpora.corpora import AlignedCorpus, RemoteFile, Text
from t2t_lite.problems.translate import T2TTranslateProblem
from t2t_lite.problems.wmt import pair_corpus
from t2t_lite.text.text_encoder import VocabType

_INDONESIAN = "https://github.com/prasastoadi/parallel-corpora-en-id/raw/master/"


def _iwslt17(part: str, size: int | None = None, sha256: str | None = None) -> AlignedCorpus:
    stem = f"IWSLT17.{part}.en-id"
    return pair_corpus(RemoteFile(f"{_INDONESIAN}{stem}.tgz", size, sha256), stem, "id")


def _panl_bppt(topic: str, words: str, size: int, sha256: str) -> AlignedCorpus:
    stem = f"PANL-BPPT-{topic}"
    archive = RemoteFile(f"{_INDONESIAN}{stem}-EN-ID-{words}.tgz", size, sha256)
    sides = (Text(archive, f"{stem}-{side}-{words}.txt") for side in ("EN", "ID"))
    return AlignedCorpus(stem, *sides)


@registry.register_problem
class TranslateEnidIwslt32k(T2TTranslateProblem):
    """T2T's English-Indonesian: talks of IWSLT 2017, and PANL-BPPT's four topics.

    The dev split is tst2017plus, the test split tst2015-16.
    """

    targets_language = "id"
    training_corpora = (
        _iwslt17("train"),
        _panl_bppt(
            "ECO",
            "150Kw",
            627_900,
            "1395326f925f9833987e22f88e5b159a4544298fca188e21e8f8c4d03f61f739",
        ),
        _panl_bppt(
            "INT",
            "150Kw",
            697_201,
            "24109074533c589dd5ed1c22334de416c63828bdecfef9a59a496d0444ed7620",
        ),
        _panl_bppt(
            "SCI",
            "100Kw",
            499_489,
            "66de3f2d405f8b45070e4b1bc933413b70f4109535e9fbb79ef655183fbfd3d6",
        ),
        _panl_bppt(
            "SPO",
            "100Kw",
            437_176,
            "b333cc477c8dd053c965094ed73a0bacc61aae80b5bb20b1f5cf4ad03e4a6952",
        ),
    )
    dev_corpus = _iwslt17(
        "TED.tst2017plus",
        64_772,
        "bde58297a16e7d3890ad8e2e319eec9111b713a9da003724ac1ebbc98a50a36c",
    )
    test_corpus = _iwslt17(
        "TED.tst2015-16",
        66_349,
        "8feafede263bf033ee409dbf98af61bcadcd2cd94d1999bd5b39f41702a45a55",
    )


_VIETNAMESE = "https://github.com/stefan-it/nmt-en-vi/raw/master/data/"


@registry.register_problem
class TranslateEnviIwslt32k(T2TTranslateProblem):
    """T2T's English-Vietnamese: talks of IWSLT 2015; tst2012, and tst2013 to test.

    The text is tokenised, and has entities such as `&apos;`: its BLEU is not that of plain text.
    """

    targets_language = "vi"
    training_corpora = (pair_corpus(RemoteFile(f"{_VIETNAMESE}train-en-vi.tgz"), "train", "vi"),)
    dev_corpus = pair_corpus(
        RemoteFile(
            f"{_VIETNAMESE}dev-2012-en-vi.tgz",
            103_520,
            "04a0b7ce677cea8ad9dac65bca9492db8183dcfefa458f820597dc46d7486dad",
        ),
        "tst2012",
        "vi",
    )
    test_corpus = pair_corpus(
        RemoteFile(
            f"{_VIETNAMESE}test-2013-en-vi.tgz",
            102_940,
            "0bbf7cc1ddc4bed68946b005edf9471478445e7994586a277ad4a4b0bb24caa4",
        ),
        "tst2013",
        "vi",
    )


_MACEDONIAN = "https://github.com/stefan-it/nmt-en-mk/raw/master/data/"
SETIMES_MACEDONIAN = RemoteFile("http://nlp.ffzg.hr/data/corpora/setimes/setimes.en-mk.txt.tgz")


@registry.register_problem
class TranslateEnmkSetimes32k(T2TTranslateProblem):
    """T2T's English-Macedonian: SETIMES; parts of MULTEXT-East's "1984" to evaluate and test."""

    targets_language = "mk"
    training_corpora = (
        AlignedCorpus(
            "setimes.en-mk",
            Text(SETIMES_MACEDONIAN, "setimes.en-mk.en.txt"),
            Text(SETIMES_MACEDONIAN, "setimes.en-mk.mk.txt"),
        ),
    )
    dev_corpus = pair_corpus(
        RemoteFile(
            f"{_MACEDONIAN}MTE-1984-dev.enmk.tgz",
            367_021,
            "0035029911ce656e84e2f4e124227dae6c1a4464471b2414bf06e36250bfd81a",
        ),
        "MTE1984-dev",
        "mk",
    )
    test_corpus = pair_corpus(
        RemoteFile(
            f"{_MACEDONIAN}MTE-1984-test.enmk.tgz",
            145_304,
            "e1218655c9f592e880b0301495677140f13d179813b4ca319f98169d3b5d68e8",
        ),
        "MTE1984-test",
        "mk",
    )


@registry.register_problem
class TranslateEnmkSetimesCharacters(TranslateEnmkSetimes32k):
    """The same as UTF-8 bytes."""

    vocab_type = VocabType.CHARACTER


_SETSWANA = "https://github.com/LauraMartinus/ukuxhumana/raw/master/data/en_tn/"


@registry.register_problem
class TranslateEntnRma(T2TTranslateProblem):
    """T2T's English-Setswana: the Autshumato corpus of South Africa's RMA, without a test split."""

    targets_language = "tn"
    vocab_filename = "vocab.entn.32768"
    training_corpora = (
        pair_corpus(RemoteFile(f"{_SETSWANA}eng_tswane.train.tar.gz"), "entn_parallel.train", "tn"),
    )
    dev_corpus = pair_corpus(
        RemoteFile(
            f"{_SETSWANA}eng_tswane.dev.tar.gz",
            2_477_907,
            "c8ca9d31d3373e3331632e23b7141989a5bec046ee6809127a77ccb5cca9c6ea",
        ),
        "entn_parallel.dev",
        "tn",
    )
    test_corpus = None
