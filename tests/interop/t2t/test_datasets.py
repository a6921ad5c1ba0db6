"""Classes of T2T's modules of data sets, and what directories of 2018 to 2020 build on them."""

import gzip
import importlib
from typing import Any

import pytest

from support.archives import write_archive
from support.usr_archives import lines
from t2t_lite import generate_data, registry
from t2t_lite.interop.t2t import datasets, text_iterators
from t2t_lite.interop.t2t.adapter import adapted
from t2t_lite.names import snake_case
from t2t_lite.text.bad_input import BadInput

_CLASSES = [
    (module, name)
    for module in ("translations", "text_sets")
    for name in importlib.import_module(f"t2t_lite.interop.t2t.{module}").__all__
    if name[0].isupper()
]


def generate(problem, tmp_path) -> dict[str, Any]:
    """Generates a problem's data, and returns its first training sample."""
    data = str(tmp_path / "data")
    generate_data(adapted(problem), data_dir=data, tmp_dir=str(tmp_path), num_workers=1)
    return next(iter(problem.generate_samples(data, str(tmp_path), "train")))


@pytest.mark.parametrize(("module", "name"), _CLASSES)
def test_a_class_has_the_settings_of_the_registered_one(module, name):
    found = importlib.import_module(f"t2t_lite.interop.t2t.{module}")
    theirs, ours = getattr(found, name)(), registry.problem(snake_case(name))
    for member in ("approx_vocab_size", "vocab_filename", "vocab_type", "has_inputs"):
        assert getattr(theirs, member) == getattr(ours, member), member


@pytest.mark.parametrize(
    ("module", "constant", "where", "member"),
    [
        ("translate_ende", "_ENDE_TRAIN_DATASETS", "training-parallel-nc-v13.tgz", ".de-en.en"),
        ("translate_ende", "_ENDE_EVAL_DATASETS", "dev.tgz", "newstest2013.en"),
        ("translate_enfr", "_ENFR_TRAIN_LARGE_DATA", "commoncrawl.tgz", ".fr-en.en"),
        ("translate_enfr", "_ENFR_TEST_SMALL_DATA", "baseline-1M-enfr.tgz", "valid.en"),
        ("translate_encs", "_ENCS_TRAIN_DATASETS", "data-plaintext-format.tar", "tsv"),
        ("translate_enro", "_ENRO_TRAIN_DATASETS", "ro-en.tgz", "europarl-v7.ro-en.en"),
        ("translate_enro", "_ENRO_TEST_DATASETS", "dev-romanian-updated.tgz", "ref.en.sgm"),
        ("translate_envi", "_ENVI_TRAIN_DATASETS", "train-en-vi.tgz", "train.en"),
        ("translate_enzh", "_NC_TRAIN_DATASETS", "nc-v13.tgz", ".zh-en.en"),
        ("translate_enzh", "_UN_TRAIN_DATASETS", "UNv1.0.en-zh.tar.gz", "en-zh.en"),
    ],
)
def test_lists_of_data_sets(upstream, module, constant, where, member):
    found = importlib.import_module(f"tensor2tensor.data_generators.{module}")
    url, members = getattr(found, constant)[0]
    assert url.endswith(where)
    assert members[0].endswith(member)
    assert found.EOS == 1


def test_vietnamese_with_another_vocabulary_and_more_data(upstream, tmp_path):
    from tensor2tensor.data_generators import problem, translate_envi
    from tensor2tensor.utils import registry as t2t_registry

    @t2t_registry.register_problem
    class TranslateEnviOwn(translate_envi.TranslateEnviIwslt32k):
        @property
        def approx_vocab_size(self):
            return 2**8

        @property
        def additional_training_datasets(self):
            return [["", ("more.en", "more.vi")]]

        def source_data_files(self, dataset_split):
            if dataset_split == problem.DatasetSplit.TRAIN:
                return super().source_data_files(dataset_split)
            return translate_envi._ENVI_TRAIN_DATASETS

    write_archive(
        tmp_path / "train-en-vi.tgz", {"train.en": lines("Cat"), "train.vi": lines("Meo")}
    )
    (tmp_path / "more.en").write_bytes(lines("Dog"))
    (tmp_path / "more.vi").write_bytes(lines("Cho"))
    found = t2t_registry.problem("translate_envi_own")
    first = generate(found, tmp_path)
    assert first == {"inputs": "Cat number 0 is here.", "targets": "Meo number 0 is here."}
    assert found.vocab_filename == "vocab.translate_envi_own.256.subwords"
    samples = list(found.generate_samples("", str(tmp_path), "train"))
    assert (len(samples), samples[-1]["targets"]) == (80, "Cho number 39 is here.")


def test_chinese_has_two_vocabularies(upstream, tmp_path):
    from tensor2tensor.data_generators import translate_enzh

    class TranslateEnzhOwn(translate_enzh.TranslateEnzhWmt8k):
        approx_vocab_size = 2**8

        def source_data_files(self, dataset_split):
            return self.get_training_dataset("")

    stem = "training-parallel-nc-v13/news-commentary-v13.zh-en"
    texts = {f"{stem}.en": lines("Cat"), f"{stem}.zh": lines("猫")}
    write_archive(tmp_path / "training-parallel-nc-v13.tgz", texts)
    problem = TranslateEnzhOwn()
    data = str(tmp_path / "data")
    generate_data(adapted(problem), data_dir=data, tmp_dir=str(tmp_path), num_workers=1)
    encoders = problem.feature_encoders(data)
    assert "猫_" in encoders["targets"].all_subtoken_strings
    assert "猫_" not in encoders["inputs"].all_subtoken_strings
    assert adapted(problem).vocab_files() == [problem.source_vocab_name, problem.target_vocab_name]


def test_larger_chinese_corpora_are_read_where_they_are(upstream, tmp_path):
    from tensor2tensor.data_generators import translate_enzh

    problem = translate_enzh.TranslateEnzhWmt32k()
    assert len(problem.get_training_dataset(str(tmp_path))) == 1
    (tmp_path / translate_enzh.get_filename(translate_enzh._UN_TRAIN_DATASETS)).touch()
    assert len(problem.get_training_dataset(str(tmp_path))) == 2
    (tmp_path / "cwmt.tgz").touch()
    assert len(problem.get_training_dataset(str(tmp_path))) == 2 + 24


def test_reviews_of_films_with_other_text(upstream, tmp_path):
    from tensor2tensor.data_generators import imdb

    class SentimentShort(imdb.SentimentIMDB):
        approx_vocab_size = 2**8

        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            for sample in super().generate_samples(data_dir, tmp_dir, dataset_split):
                yield {"inputs": sample["inputs"].lower(), "label": sample["label"]}

    members = {
        f"aclImdb/{split}/{label}/{i}_1.txt": f"A {label} Film {i}".encode()
        for split in ("train", "test")
        for label in ("neg", "pos")
        for i in range(20)
    }
    write_archive(tmp_path / "aclImdb_v1.tar.gz", members)
    first = generate(SentimentShort(), tmp_path)
    assert first == {"inputs": "a neg film 0", "label": 0}
    assert SentimentShort().class_labels("") == ("neg", "pos")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("imdb", "SentimentIMDB"),
        ("imdb", "SentimentIMDBCharacters"),
        ("cnn_dailymail", "SummarizeCnnDailymail32k"),
        ("lm1b", "LanguagemodelLm1b32k"),
        ("wsj_parsing", "WsjParsing"),
        ("translate_ende", "TranslateEndeWmt8k"),
    ],
)
@pytest.mark.parametrize("member", ["generate_samples", "generate_encoded_samples"])
def test_samples_of_a_subclass_need_no_archive(upstream, tmp_path, module, name, member):
    base = getattr(importlib.import_module(f"tensor2tensor.data_generators.{module}"), name)

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return ({"inputs": "a", "targets": "b", "label": i % 2} for i in range(200))

    def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
        return ({"inputs": [3, 1], "targets": [i % 2]} for i in range(200))

    own = {"generate_samples": generate_samples, member: locals()[member]}
    own["generate_text_for_vocab"] = lambda self, data_dir, tmp_dir: ["a b"] * 9
    found = adapted(type("Own", (base,), {"approx_vocab_size": 2**8, **own})())
    for split in ("train", "eval"):
        assert found.source_files(str(tmp_path), split) == []
        assert found.fetch_sources(str(tmp_path), split) == []


def test_lines_of_sgm_as_users_readers_strip_them(upstream):
    from tensor2tensor.data_generators.translate import _preprocess_sgm

    lines = ['<seg id="1"> a < b </seg>\n', "<p>\n", "</srcset>"]
    assert [_preprocess_sgm(line, True) for line in lines] == [" a < b ", "", ""]
    assert [_preprocess_sgm(line, False) for line in lines] == lines


def test_an_archive_at_an_absolute_path_may_be_in_tmp_dir(tmp_path):
    """T2T looks there alone; a directory that names its author's folder runs elsewhere, too."""
    address = f"{tmp_path}/of-the-author/corpus.tgz"
    (file,) = datasets.files([address, ("train.a", "train.b")], str(tmp_path))
    assert str(file.path(str(tmp_path))) == address
    (tmp_path / "corpus.tgz").touch()
    assert file.path(str(tmp_path)) == tmp_path / "corpus.tgz"


def test_text_that_is_not_utf8_can_be_skipped(upstream, tmp_path):
    from tensor2tensor.data_generators import imdb

    members = {"aclImdb/train/neg/1_1.txt": b"\xff", "aclImdb/train/pos/1_9.txt": b"Good."}
    write_archive(tmp_path / "aclImdb_v1.tar.gz", members)
    problem = imdb.SentimentIMDB()
    text_iterators.receive(BadInput(skip=True))  # as t2t-datagen does with --skip_bad
    samples = problem.generate_samples("", str(tmp_path), "train")
    assert list(samples) == [{"inputs": "Good.", "label": 1}]


def test_words_of_a_language_model_are_written_under_the_subclass_name(upstream, tmp_path):
    from tensor2tensor.data_generators import ptb

    class LanguagemodelPtbOwn(ptb.LanguagemodelPtb10k):
        vocab_filename = "vocab.own"

    members = {
        f"simple-examples/data/ptb.{split}.txt": lines(f"the {split}")
        for split in ("train", "valid", "test")
    }
    write_archive(tmp_path / "simple-examples.tgz", members)
    first = generate(LanguagemodelPtbOwn(), tmp_path)
    assert first == {"targets": "the train number 0 is here."}
    words = (tmp_path / "data" / "vocab.own").read_text().split()
    assert {"<unk>", "the", "train"} <= set(words)
    assert ptb.LanguagemodelPtb10k().vocab_filename == "vocab.lmptb.10000"


def test_czech_reads_the_columns_of_its_tables(upstream, tmp_path):
    from tensor2tensor.data_generators import translate_encs

    rows = "".join(f"id{i}\t0.9\tveta {i}\tsentence {i}\n" for i in range(3))
    member = "data.plaintext-format/00train.gz"
    write_archive(tmp_path / "data-plaintext-format.tar", {member: gzip.compress(rows.encode())})
    entry = translate_encs._ENCS_TRAIN_DATASETS[0]
    assert next(datasets.pairs([entry], str(tmp_path))) == {
        "inputs": "sentence 0",
        "targets": "veta 0",
    }


def test_parsing_of_the_users_trees(upstream, tmp_path):
    from tensor2tensor.data_generators import wsj_parsing

    class ParsingUsrForest(wsj_parsing.WsjParsing):
        EVAL_FILES_TREE = "few.trees"
        approx_vocab_size = 300

    assert wsj_parsing.words_and_tags_from_wsj_tree(
        "(TOP (S (NP (NN rain)) (VP (VBZ falls))))"
    ) == (
        "rain falls",
        "S NP NN /NP VP VBZ /VP /S",
    )
    tree = "(TOP (S (NP (DT the) (NN oak)) (VP (VBZ grows))))\n"
    (tmp_path / "wsjTrain.trees").write_text(tree * 20)
    (tmp_path / "few.trees").write_text(tree.replace("oak", "elm"))
    problem = ParsingUsrForest()
    assert generate(problem, tmp_path) == {
        "inputs": "the oak grows",
        "targets": "S NP DT NN /NP VP VBZ /VP /S",
    }
    (sample,) = problem.generate_samples("", str(tmp_path), "eval")
    assert sample["inputs"] == "the elm grows"
