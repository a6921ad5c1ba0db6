"""T2T's translation from English to Chinese, Czech, Romanian, Spanish and Estonian.

The corpora are T2T's, the test splits ours. As in `wmt`, archives are read from `--tmp_dir`, or
downloaded into it; where a host is gone, the error says under which name to put a file there. The
checksums of the test sets are sacreBLEU's. Each corpus has a licence of its own, at its address;
WMT distributes its texts for research.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from t2t_lite import registry
from t2t_lite.data.corpora.corpora import AlignedCorpus, Corpus, RemoteFile, Text, TsvArchive
from t2t_lite.data.problem import DatasetSplit, three_splits
from t2t_lite.data.text_problems import TwoVocabularies
from t2t_lite.problems.wmt import (
    COMMON_CRAWL,
    DEVELOPMENT_SETS,
    EUROPARL_V7,
    NEWS_COMMENTARY_V13,
    NEWSTEST2014_FULL,
    UN_2000,
    T2TWmtProblem,
    pair_corpus,
)
from t2t_lite.text.text_encoder import VocabType

_TWAIRBALL = "https://s3-us-west-2.amazonaws.com/twairball.wmt17.zh-en/"
CWMT = RemoteFile(f"{_TWAIRBALL}cwmt.tgz")
UN_V1 = RemoteFile(f"{_TWAIRBALL}UNv1.0.en-zh.tar.gz")


def _test_set(year: int, address: str, md5: str) -> RemoteFile:
    """Returns WMT's test sets of a year; all years call them `test.tgz`."""
    return RemoteFile(f"https://{address}/test.tgz", file_hash=md5, name=f"wmt{year}-test.tgz")


TESTS_2012 = _test_set(12, "statmt.org/wmt12", "608232d34ebc4ba2ff70fead45674e47")
TESTS_2016, TESTS_2017, TESTS_2018 = (
    _test_set(year, f"data.statmt.org/wmt{year}/translation-task", md5)
    for year, md5 in (
        (16, "3d809cd0c2c86adb2c67034d15c4e446"),
        (17, "86a1724c276004aa25455ae2a04cef26"),
        (18, "f996c245ecffea23d0006fa4c34e9064"),
    )
)


class T2TTranslateProblem(T2TWmtProblem):
    """Base class: a problem is its corpora.

    Attributes:
        training_corpora: read in this order.
        optional_corpora: appended where their archives are in `tmp_dir`.
        dev_corpus: T2T's evaluation data.
        test_corpus: held-out data; None: the problem has no test split.
        train_shards: number of training files.
    """

    licence = "each corpus has a licence of its own, at its address"
    optional_corpora: ClassVar[tuple[Corpus, ...]] = ()
    dev_corpus: ClassVar[Corpus]
    test_corpus: ClassVar[Corpus | None]
    train_shards: ClassVar[int] = 100

    def corpora(self, dataset_split: str) -> tuple[Corpus, ...]:
        """Returns the corpora of a split, without optional ones."""
        if dataset_split == DatasetSplit.TRAIN:
            return self.training_corpora
        held_out = self.dev_corpus if dataset_split == DatasetSplit.EVAL else self.test_corpus
        return (held_out,) if held_out else ()

    def corpora_in(self, tmp_dir: str, dataset_split: str) -> tuple[Corpus, ...]:
        """Returns the corpora of a split, and optional ones whose archives are in `tmp_dir`."""
        found = self.corpora(dataset_split)
        if dataset_split != DatasetSplit.TRAIN:
            return found
        here = (
            corpus
            for corpus in self.optional_corpora
            if all(file.path(tmp_dir).is_file() for file in corpus.files)
        )
        return (*found, *here)

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """Training, dev and, where there is one, test."""
        return three_splits(self.train_shards)[: 3 if self.test_corpus else 2]


def _cwmt(name: str, source: str, target: str) -> AlignedCorpus:
    return AlignedCorpus(name, Text(CWMT, f"cwmt/{source}"), Text(CWMT, f"cwmt/{target}"))


def _sgm(archive: RemoteFile, source: str, target: str) -> AlignedCorpus:
    """Returns the corpus of two SGM members, which is called after its sources."""
    name = source.rpartition("/")[2].partition("-src")[0]
    return AlignedCorpus(name, Text(archive, f"{source}.sgm"), Text(archive, f"{target}.sgm"))


# ---- Chinese


@registry.register_problem
class TranslateEnzhWmt8k(TwoVocabularies, T2TTranslateProblem):
    """T2T's small English-Chinese: News Commentary v13, and 2^13 subwords of each language.

    T2T takes newsdev2017 from WMT18's archive of development sets, which has the name of WMT17's
    and the same member. The test split is newstest2017.
    """

    targets_language = "zh"
    vocab_languages = ("en", "zh")
    approx_vocab_size = 2**13
    train_shards = 10
    # T2T reads up to 100 million bytes of each text.
    vocab_characters_per_corpus = 200_000_000
    training_corpora = (
        pair_corpus(
            NEWS_COMMENTARY_V13, "training-parallel-nc-v13/news-commentary-v13.zh-en", "zh"
        ),
    )
    dev_corpus = _sgm(
        DEVELOPMENT_SETS, "dev/newsdev2017-enzh-src.en", "dev/newsdev2017-enzh-ref.zh"
    )
    test_corpus = _sgm(TESTS_2017, "test/newstest2017-enzh-src.en", "test/newstest2017-enzh-ref.zh")

    @property
    def metrics(self) -> Sequence[str]:
        """BLEU of characters where the targets are Chinese."""
        return ("bleu_zh",) if self.was_reversed == self.was_copy else ("bleu",)


@registry.register_problem
class TranslateEnzhWmt32k(TranslateEnzhWmt8k):
    """The same with 2^15 subwords, and with larger corpora that you register for.

    Put CWMT (`cwmt.tgz`, nlp.nju.edu.cn/cwmt-wmt) and the UN's (`UNv1.0.en-zh.tar.gz`,
    conferences.unite.un.org/UNCorpus) into `--tmp_dir`; without them, News Commentary alone is
    used.
    """

    approx_vocab_size = 2**15
    train_shards = 100
    optional_corpora = (
        _cwmt("casia2015", "casia2015/casia2015_en.txt", "casia2015/casia2015_ch.txt"),
        _cwmt("casict2015", "casict2015/casict2015_en.txt", "casict2015/casict2015_ch.txt"),
        _cwmt("neu2017", "neu2017/NEU_en.txt", "neu2017/NEU_cn.txt"),
        _cwmt("datum2015", "datum2015/datum_en.txt", "datum2015/datum_ch.txt"),
        *(
            _cwmt(
                f"datum2017-{book}", f"datum2017/Book{book}_en.txt", f"datum2017/Book{book}_cn.txt"
            )
            for book in range(1, 21)
        ),
        pair_corpus(UN_V1, "en-zh/UNv1.0.en-zh", "zh"),
    )


# ---- Czech

CZENG_1 = RemoteFile(
    "https://lindat.mff.cuni.cz/repository/xmlui/bitstream/handle/11234/1-1458/"
    "data-plaintext-format.tar"
)


@registry.register_problem
class TranslateEncsWmt32k(T2TTranslateProblem):
    """T2T's English-Czech: CzEng 1.0, News Commentary v13, Common Crawl and Europarl v7.

    CzEng is for non-commercial use only.
    """

    targets_language = "cs"
    training_corpora = (
        TsvArchive("czeng-1.0", CZENG_1, "train.gz", (3, 2)),
        pair_corpus(
            NEWS_COMMENTARY_V13, "training-parallel-nc-v13/news-commentary-v13.cs-en", "cs"
        ),
        pair_corpus(COMMON_CRAWL, "commoncrawl.cs-en", "cs"),
        pair_corpus(EUROPARL_V7, "training/europarl-v7.cs-en", "cs"),
    )
    dev_corpus = pair_corpus(DEVELOPMENT_SETS, "dev/newstest2013", "cs")
    test_corpus = _sgm(
        NEWSTEST2014_FULL,
        "test-full/newstest2014-csen-src.en",
        "test-full/newstest2014-csen-ref.cs",
    )


@registry.register_problem
class TranslateEncsWmtCharacters(TranslateEncsWmt32k):
    """The same as UTF-8 bytes."""

    vocab_type = VocabType.CHARACTER


# ---- Romanian

EUROPARL_V7_ROMANIAN = RemoteFile("https://www.statmt.org/europarl/v7/ro-en.tgz")
SETIMES_ROMANIAN = RemoteFile("https://opus.nlpl.eu/download.php?f=SETIMES/v2/moses/en-ro.txt.zip")
DEVELOPMENT_SET_ROMANIAN = RemoteFile(
    "https://data.statmt.org/wmt16/translation-task/dev-romanian-updated.tgz"
)


@registry.register_problem
class TranslateEnroWmt32k(T2TTranslateProblem):
    """T2T's English-Romanian: Europarl v7 and SETIMES; newsdev2016, and newstest2016 to test."""

    targets_language = "ro"
    training_corpora = (
        pair_corpus(EUROPARL_V7_ROMANIAN, "europarl-v7.ro-en", "ro"),
        pair_corpus(SETIMES_ROMANIAN, "SETIMES.en-ro", "ro"),
    )
    # Of Romanian origin, as T2T has it: English is the translation.
    dev_corpus = AlignedCorpus(
        "newsdev2016-roen",
        Text(DEVELOPMENT_SET_ROMANIAN, "dev/newsdev2016-roen-ref.en.sgm"),
        Text(DEVELOPMENT_SET_ROMANIAN, "dev/newsdev2016-roen-src.ro.sgm"),
    )
    test_corpus = _sgm(TESTS_2016, "test/newstest2016-enro-src.en", "test/newstest2016-enro-ref.ro")


@registry.register_problem
class TranslateEnroWmt8k(TranslateEnroWmt32k):
    """The same with 2^13 subwords."""

    approx_vocab_size = 2**13


@registry.register_problem
class TranslateEnroWmtCharacters(TranslateEnroWmt32k):
    """The same as UTF-8 bytes."""

    vocab_type = VocabType.CHARACTER


# ---- Spanish and Estonian


def _paracrawl(language: str) -> AlignedCorpus:
    stem = f"paracrawl-release1.en-{language}.zipporah0-dedup-clean"
    folder = "https://s3.amazonaws.com/web-language-models/paracrawl/release1/"
    return pair_corpus(RemoteFile(f"{folder}{stem}.tgz"), stem, language)


@registry.register_problem
class TranslateEnesWmt32k(T2TTranslateProblem):
    """T2T's English-Spanish: Common Crawl, Europarl v7, UN 2000 and ParaCrawl.

    The test split is newstest2012: WMT's news had no Spanish after the dev split, newstest2013.
    """

    targets_language = "es"
    training_corpora = (
        pair_corpus(COMMON_CRAWL, "commoncrawl.es-en", "es"),
        pair_corpus(EUROPARL_V7, "training/europarl-v7.es-en", "es"),
        pair_corpus(UN_2000, "un/undoc.2000.es-en", "es"),
        _paracrawl("es"),
    )
    dev_corpus = pair_corpus(DEVELOPMENT_SETS, "dev/newstest2013", "es")
    test_corpus = _sgm(TESTS_2012, "test/newstest2012-src.en", "test/newstest2012-src.es")


@registry.register_problem
class TranslateEnesWmt8k(TranslateEnesWmt32k):
    """The same with 2^13 subwords."""

    approx_vocab_size = 2**13


@registry.register_problem
class TranslateEnesWmtCharacters(TranslateEnesWmt32k):
    """The same as UTF-8 bytes."""

    vocab_type = VocabType.CHARACTER


_WMT18 = "https://data.statmt.org/wmt18/translation-task/"
EUROPARL_V8 = RemoteFile(f"{_WMT18}training-parallel-ep-v8.tgz")
RAPID_2016 = RemoteFile(f"{_WMT18}rapid2016.tgz")
DEVELOPMENT_SET_ESTONIAN = RemoteFile(
    "https://github.com/stefan-it/nmt-en-et/raw/master/data/newsdev2018-enet.tar.gz",
    180_097,
    "2fe43ed0286d1fe080a3b10daf38fcf4cf3327f4aee98422b56c5f396273ea03",
)


@registry.register_problem
class TranslateEnetWmt32k(T2TTranslateProblem):
    """T2T's English-Estonian: Europarl v8, ParaCrawl and Rapid; newstest2018 to test."""

    targets_language = "et"
    training_corpora = (
        pair_corpus(EUROPARL_V8, "training/europarl-v8.et-en", "et"),
        _paracrawl("et"),
        pair_corpus(RAPID_2016, "rapid2016.en-et", "et"),
    )
    dev_corpus = AlignedCorpus(
        "newsdev2018-enet",
        Text(DEVELOPMENT_SET_ESTONIAN, "newsdev2018-enet-src.en"),
        Text(DEVELOPMENT_SET_ESTONIAN, "newsdev2018-enet-ref.et"),
    )
    test_corpus = _sgm(TESTS_2018, "test/newstest2018-enet-src.en", "test/newstest2018-enet-ref.et")


@registry.register_problem
class TranslateEnetWmtCharacters(TranslateEnetWmt32k):
    """The same as UTF-8 bytes."""

    vocab_type = VocabType.CHARACTER
