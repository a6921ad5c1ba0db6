"""T2T's text encoders, vocabularies and files of records."""

import pathlib
import re

import numpy as np
import pytest

from t2t_lite.data.records import read_examples
from t2t_lite.errors import DataError, UserError
from t2t_lite.interop.t2t import generator_utils, mlperf_log, text_encoder, tokenizer
from t2t_lite.interop.t2t.adapted_encoder import AdaptedEncoder
from t2t_lite.interop.t2t.problem import SpaceID, TaskID


def test_constants_are_t2ts():
    assert (text_encoder.PAD, text_encoder.EOS, text_encoder.NUM_RESERVED_TOKENS) == (
        "<pad>",
        "<EOS>",
        2,
    )
    assert text_encoder.RESERVED_TOKENS_BYTES == [b"<pad>", b"<EOS>"]
    assert (text_encoder.PAD_ID, text_encoder.EOS_ID) == (0, 1)
    assert (SpaceID.GENERIC, SpaceID.DE_TOK, SpaceID.PICKLED_PYTHON) == (0, 8, 30)
    assert (TaskID.EN_CHR, TaskID.THREE_CL_NLI) == (2, 10)
    assert mlperf_log.PREPROC_VOCAB_SIZE == "preproc_vocab_size"
    mlperf_log.transformer_print(key=mlperf_log.INPUT_ORDER, value=3)


def test_encoders_have_t2ts_members(tmp_path):
    characters = text_encoder.ByteTextEncoder()
    assert characters.decode_list([0, 1, 99, 197]) == [b"<pad>", b"<EOS>", b"a", b"\xc3"]
    path = str(tmp_path / "vocab")
    text_encoder.SubwordTextEncoder.build_from_generator(["a b"], 40).store_to_file(path)
    subwords = text_encoder.SubwordTextEncoder(path)
    assert (subwords.filename, text_encoder.SubwordTextEncoder().filename) == (path, None)
    assert (characters._num_reserved_ids, subwords._num_reserved_ids) == (2, None)
    tokens = text_encoder.TokenTextEncoder(None, vocab_list=["a"])
    assert tokens._num_reserved_ids == 2
    assert tokens._id_to_token is tokens._id_to_token
    labels = text_encoder.ClassLabelEncoder(["no", "yes"])
    labels._class_labels = ["nein", "ja"]
    assert (labels.encode("ja"), labels.class_labels) == (1, ["nein", "ja"])
    labels.class_labels = ["non", "oui"]
    assert (labels.encode("oui"), labels._class_labels) == (1, ["non", "oui"])


def test_users_may_append_reserved_tokens(monkeypatch, tmp_path):
    monkeypatch.setattr(text_encoder, "RESERVED_TOKENS", [*text_encoder.RESERVED_TOKENS])
    text_encoder.RESERVED_TOKENS.append("<UNK>")
    monkeypatch.setattr(text_encoder, "NUM_RESERVED_TOKENS", len(text_encoder.RESERVED_TOKENS))
    words = text_encoder.TokenTextEncoder(None, vocab_list=["a", "<UNK>"], replace_oov="<UNK>")
    words.store_to_file(str(tmp_path / "vocab"))
    assert (tmp_path / "vocab").read_text().split() == ["<pad>", "<EOS>", "<UNK>", "a"]
    assert words.encode("a b") == [3, 2]
    built = text_encoder.SubwordTextEncoder.build_from_generator(["a b"], 40)
    assert built.all_subtoken_strings[:3] == ["<pad>_", "<EOS>_", "<UNK>_"]
    assert (text_encoder.ByteTextEncoder().encode("a"), words.num_reserved_ids) == ([99], 2)


def test_a_problem_may_log_as_models_do(upstream, caplog):
    from tensor2tensor.utils import t2t_model

    t2t_model.log_warn("line %d of %s", 3, "a.txt")
    assert "line 3 of a.txt" in caplog.text
    with pytest.raises(UserError, match=r"t2t_model\.T2TModel .* port the model"):
        t2t_model.T2TModel({}, "train")


def test_numbers():
    encoder = text_encoder.TextEncoder()
    assert encoder.encode("0 5 1") == [2, 7, 3]
    assert encoder.decode([2, 7, 1, 0]) == "0 5"
    assert encoder.decode_list([1, 7]) == ["<EOS>", "5"]
    assert text_encoder.TextEncoder(num_reserved_ids=None).encode("3") == [3]
    with pytest.raises(UserError, match=r"set p\.vocab_size in the problem's hparams"):
        _ = encoder.vocab_size


def test_bytes():
    encoder = text_encoder.ByteTextEncoder()
    assert encoder.encode("aß") == [99, 197, 161]
    assert encoder.decode([99, 197, 161, 1], strip_extraneous=True) == "aß"
    with pytest.raises(ValueError, match="only 2"):
        text_encoder.ByteTextEncoder(num_reserved_ids=0)


def test_tokens(tmp_path):
    path = str(tmp_path / "vocab")
    encoder = text_encoder.TokenTextEncoder(None, vocab_list=["a", "b", "UNK"], replace_oov="UNK")
    encoder.store_to_file(path)
    assert pathlib.Path(path).read_text() == "<pad>\n<EOS>\na\nb\nUNK\n"
    again = text_encoder.TokenTextEncoder(path, replace_oov="UNK")
    assert again.encode("b c a") == encoder.encode("b c a") == [3, 4, 2]
    assert again.decode([3, 1]) == "b"
    assert again.decode_list([1, 3, 9]) == ["<EOS>", "b", "ID_9"]
    assert again.vocab_size == 5
    backwards = text_encoder.TokenTextEncoder(path, reverse=True, num_reserved_ids=9)
    assert backwards.encode("b a UNK") == [4, 2, 3]
    assert backwards.decode(np.array([4, 2, 3, 1])) == "b a UNK"
    assert backwards.decode_list([4, 2]) == ["a", "UNK"]


def test_subclasses_may_read_t2ts_attributes():
    class Letters(text_encoder.TokenTextEncoder):
        def encode(self, s):
            known = self._token_to_id
            return [known.get(letter, known[self._replace_oov]) for letter in s]

        def decode(self, ids, strip_extraneous=False):
            return "".join(self._id_to_token[id_] for id_ in ids)

    encoder = Letters(None, vocab_list=["a", "b", "?"], replace_oov="?")
    assert encoder.encode("bad") == [3, 2, 4]
    assert encoder.decode([3, 2, 4]) == "ba?"


def test_each_line_of_a_vocabulary_has_an_id(tmp_path):
    r"""As of a list from `read().split("\n")`, with tokens of several corpora."""
    path = tmp_path / "vocab"
    text_encoder.TokenTextEncoder(None, vocab_list=["b", "a", "", "b", "UNK"]).store_to_file(path)
    assert path.read_text() == "<pad>\n<EOS>\nb\na\n\nb\nUNK\n"
    encoder = text_encoder.TokenTextEncoder(str(path), replace_oov="UNK")
    assert encoder.vocab_size == 7
    assert encoder.encode("a b c") == [3, 5, 6]  # T2T's id of a repeated token is its last
    assert encoder.decode([2, 5, 3]) == "b b a"
    path.write_text("")
    with pytest.raises(DataError, match="is empty"):
        text_encoder.TokenTextEncoder(str(path))


def test_subclasses_may_set_and_call_what_t2ts_constructor_does(tmp_path):
    path = tmp_path / "vocab"
    path.write_text("a\nb\n?\n")

    class Factored(text_encoder.TokenTextEncoder):
        def __init__(self, vocab_filename=None, vocab_list=None, replace_oov=None):
            super().__init__(vocab_filename, vocab_list=vocab_list)
            self._reverse = False
            self._replace_oov = replace_oov
            if vocab_filename:
                self._init_vocab_from_file(vocab_filename)
            else:
                self._init_vocab_from_list(vocab_list)

        def encode(self, s):
            ids = [self._token_to_id[word.split("|")[0]] for word in s.split()]
            return ids[::-1] if self._reverse else ids

    for encoder in (Factored(str(path), None, "?"), Factored(None, ["a", "b", "?"], "?")):
        assert encoder.encode("b|N a|V") == [3, 2]
        assert encoder.oov_id == 4


def test_a_token_for_unknown_words_is_needed_only_where_there_is_one(tmp_path):
    path = tmp_path / "vocab"
    path.write_text("a\nb\n")
    encoder = text_encoder.TokenTextEncoder(str(path), replace_oov="UNK")
    assert encoder.encode("b a") == [3, 2]
    assert encoder.oov_id is None
    message = f"token 'c' is not in {path}; add it, or add the oov_token 'UNK' to that file"
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        encoder.encode("b c")


def test_subwords_are_built_as_t2t_builds_them(golden, tmp_path):
    corpus = (golden / "vocab_build" / "corpus.txt").read_text(encoding="utf-8").split("\n")[:-1]
    path = tmp_path / "vocab.300.subwords"
    built = generator_utils.get_or_generate_vocab_inner(str(tmp_path), path.name, 300, corpus)
    assert path.read_bytes() == (golden / "vocab_build" / path.name).read_bytes()
    loaded = text_encoder.SubwordTextEncoder(str(path))
    assert loaded.all_subtoken_strings == built.all_subtoken_strings
    ids = loaded.encode("a tale")
    assert loaded.decode([*ids, 1]) == "a tale"
    assert "".join(loaded.decode_list(ids)) == "a_tale_"
    assert loaded.encode_without_tokenizing("tale") == loaded.encode("tale")
    reserved = generator_utils.get_or_generate_vocab_inner(
        None, "", 300, corpus, reserved_tokens=[*text_encoder.RESERVED_TOKENS, "<GO>"]
    )
    assert reserved.decode_list([2]) == ["<GO>_"]


def test_subclasses_may_cut_subwords_of_tokens_of_their_own():
    """A token of `split` may contain spaces or marks, at which T2T's tokenizer would cut."""

    class Spaced(text_encoder.SubwordTextEncoder):
        def encode(self, s):
            return self._tokens_to_subtoken_ids(s.split("  "))

        def decode(self, ids, strip_extraneous=False):
            return "  ".join(self._subtoken_ids_to_tokens(ids))

    encoder = Spaced([*text_encoder.RESERVED_TOKENS, "a b_", "_", *"ab -\\u;0123456789"])
    assert encoder.encode("a b  b-a") == [2, 5, 7, 4, 3]
    assert encoder.decode([2, 5, 7, 4, 3, 1]) == "a b  b-a"
    assert encoder._token_to_subtoken_ids("a b") == [2]
    assert [*map(encoder._subtoken_id_to_subtoken_string, (2, 99))] == ["a b_", ""]
    escaped = text_encoder._escape_token("a_\\\u0417", set("a\\u;0123456789"))
    assert escaped == r"a\u\\\1047;_"
    assert text_encoder._unescape_token(escaped) == "a_\\\u0417"
    assert encoder._all_subtoken_strings[2] == "a b_"
    assert encoder._subtoken_string_to_id["a b_"] == 2


@pytest.mark.parametrize("reserved", [None, [*text_encoder.RESERVED_TOKENS, "<X>"]])
def test_builders_of_subwords_have_t2ts_arguments(reserved):
    """Positional ones, too; `reserved_tokens` includes padding and EOS."""
    counts = {"abc": 9, "abd": 8, "bcd": 7}
    fresh = text_encoder.SubwordTextEncoder()
    fresh.build_from_token_counts(counts, 2, 4, reserved)
    built = (
        text_encoder.SubwordTextEncoder.build_to_target_size(9, counts, 1, 1e3, 4, reserved),
        text_encoder.SubwordTextEncoder.build_from_generator(
            ["abc abd"] * 5, target_size=9, max_subtoken_length=4, reserved_tokens=reserved
        ),
        fresh,
    )
    first = ["<pad>_", "<EOS>_", "<X>_"][: len(reserved or [1, 2])]
    for encoder in built:
        assert list(encoder.all_subtoken_strings[: len(first)]) == first
        assert "<pad>_" not in encoder.all_subtoken_strings[2:]
        assert encoder.decode(encoder.encode("abc abd")) == "abc abd"
    with pytest.raises(ValueError, match=r"reserved_tokens=\['<X>'\]: expected \['<pad>'"):
        fresh.build_from_token_counts(counts, 2, reserved_tokens=["<X>"])


@pytest.mark.parametrize(
    ("given", "first"), [({}, "'<pad>_'"), ({"add_single_quotes": False}, "<pad>_")]
)
def test_subwords_are_stored_with_quotes_or_without(tmp_path, given, first):
    path = str(tmp_path / "vocab")
    texts = ["it's a dog's text, - or\u00a0a cat's?  \"Yes\""] * 9
    encoder = text_encoder.SubwordTextEncoder.build_from_generator(texts, 60)
    assert {" ", "\u00a0"} < {*encoder.all_subtoken_strings}
    encoder.store_to_file(path, **given)
    assert (tmp_path / "vocab").read_text().split("\n")[0] == first
    loaded = text_encoder.SubwordTextEncoder(path)
    assert loaded.all_subtoken_strings == encoder.all_subtoken_strings


def test_vocabularies_of_columns_and_files(tmp_path):
    (tmp_path / "table.tsv").write_text("left\tright\nnone\n")
    size = {"vocab_filename": "v.1", "vocab_size": 30}
    column = generator_utils.get_or_generate_tabbed_vocab(
        str(tmp_path), str(tmp_path), "table.tsv", 1, **size
    )
    assert set("right") <= set(column.all_subtoken_strings)
    assert not set("lef") <= set(column.all_subtoken_strings)
    pattern = str(tmp_path / "*.tsv")
    whole = generator_utils.get_or_generate_txt_vocab(str(tmp_path), "v.2", 30, pattern)
    assert set("leftrigh") <= set(whole.all_subtoken_strings)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_vocabulary_of_no_text_is_refused(tmp_path, text):
    (tmp_path / "empty.txt").write_text(text)
    for patterns in (str(tmp_path / "empty.*"), [str(tmp_path / "empty.txt")] * 2):
        with pytest.raises(DataError, match=r"cannot build .*vocab: its text is empty"):
            generator_utils.get_or_generate_txt_vocab(str(tmp_path), "vocab", 30, patterns)
    patterns = [str(tmp_path / "typo*.txt"), str(tmp_path / "none.txt")]
    with pytest.raises(UserError, match=r"typo\*\.txt, .*none\.txt: no such file"):
        generator_utils.get_or_generate_txt_vocab(str(tmp_path), "vocab", 30, patterns)
    assert not (tmp_path / "vocab").exists()
    (tmp_path / "typo1.txt").write_text("some text\n")  # one file is enough, as in T2T
    generator_utils.get_or_generate_txt_vocab(str(tmp_path), "vocab", 30, patterns)
    assert (tmp_path / "vocab").exists()


def test_labels(tmp_path):
    encoder = text_encoder.ClassLabelEncoder(["no", "yes"])
    assert (encoder.encode("yes"), encoder.decode([0]), encoder.vocab_size) == (1, "no", 2)
    assert encoder.decode(np.array([[1]])) == encoder.decode(np.int64(1)) == "yes"
    assert encoder.decode_list([1, 0]) == ["yes", "no"]
    (tmp_path / "labels").write_text("no\nyes\n")
    path = str(tmp_path / "labels")
    assert text_encoder.ClassLabelEncoder(class_labels_fname=path).decode(1) == "yes"
    (tmp_path / "labels").write_text("\ufeffno\r\nyes\r\n")
    assert text_encoder.ClassLabelEncoder(class_labels_fname=path).class_labels == ["no", "yes"]


def test_labels_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "labels").write_bytes(b"no\n\xffyes\n")
    with pytest.raises(DataError, match="labels, line 2"):
        text_encoder.ClassLabelEncoder(class_labels_fname=str(tmp_path / "labels"))
    with pytest.raises(UserError, match="missing"):
        text_encoder.ClassLabelEncoder(class_labels_fname=str(tmp_path / "missing"))


def test_text():
    assert text_encoder.to_unicode(b"a\xff", ignore_errors=True) == "a"
    assert text_encoder.native_to_unicode("ß") == text_encoder.to_unicode_utf8("ß".encode()) == "ß"
    assert text_encoder.strip_ids([5, 0, 1, 0], [0, 1]) == [5]
    with pytest.raises(UnicodeDecodeError):
        text_encoder.to_unicode(b"\xff")


def test_tokens_are_counted(tmp_path):
    (tmp_path / "a.txt").write_text("one two\ntwo\nthree\n")
    pattern = str(tmp_path / "*.txt")
    assert tokenizer.corpus_token_counts(pattern, 2) == {"one": 1, "two": 2}
    assert tokenizer.corpus_token_counts(pattern, 0, split_on_newlines=False)["\n"] == 3
    (tmp_path / "b.txt").write_text("One word.\nLast one.\n")
    whole = tokenizer.corpus_token_counts(str(tmp_path / "b.txt"), 0, split_on_newlines=False)
    assert whole == {"One": 1, "word": 1, ".\n": 2, "Last": 1, "one": 1}
    (tmp_path / "b.txt").write_text("One word.\nLast one.")
    for most, last in ((0, "."), (1, ".\n"), (2, ".")):
        counts = tokenizer.corpus_token_counts(str(tmp_path / "b.txt"), most, False)
        assert list(counts)[-1] == last


# ---- files


def case(number: int) -> dict[str, list[int]]:
    return {"inputs": [number], "targets": [number, 1]}


def test_files_are_written_in_turn_and_shuffled(tmp_path):
    paths = generator_utils.train_data_filenames("x-unshuffled", str(tmp_path), 2)
    cases = [case(number) for number in range(2, 42)]
    generator_utils.generate_files([*cases[:1], None, *cases[1:]], paths, max_cases=39)
    found = [example["inputs"][0] for example in read_examples(paths[:1])]
    assert found == list(range(2, 42, 2))
    generator_utils.shuffle_dataset(paths)
    final = [path.replace("-unshuffled", "") for path in paths]
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "x-train-00000-of-00002",
        "x-train-00001-of-00002",
    ]
    shuffled = [example["inputs"][0] for example in read_examples(final)]
    assert shuffled != sorted(shuffled)
    assert sorted(shuffled) == list(range(2, 41))
    generator_utils.generate_files([], paths)  # the results exist
    assert not pathlib.Path(paths[0]).exists()


def test_an_interrupted_shuffle_is_completed(tmp_path):
    paths = generator_utils.train_data_filenames("x-unshuffled", str(tmp_path), 2)
    generator_utils.generate_files(map(case, range(2, 10)), paths)
    generator_utils.shuffle_dataset(paths[:1])
    for _ in range(2):
        generator_utils.generate_files([], paths)
        generator_utils.shuffle_dataset(paths)
    final = [path.replace("-unshuffled", "") for path in paths]
    assert sorted(map(str, tmp_path.iterdir())) == final
    found = [example["inputs"][0] for example in read_examples(final)]
    assert sorted(found) == list(range(2, 10))


def test_files_of_final_names_are_not_shuffled(tmp_path):
    """As in T2T, whose problems say so with `already_shuffled`."""
    paths = generator_utils.train_data_filenames("x", str(tmp_path), 1)
    for _ in range(2):
        generator_utils.generate_dataset_and_shuffle(map(case, range(2, 42)), paths, [], [])
        found = [example["inputs"][0] for example in read_examples(paths)]
        assert found == list(range(2, 42))


def test_files_change_after_so_many_samples(tmp_path):
    paths = generator_utils.train_data_filenames("x", str(tmp_path), 2)
    generator_utils.generate_files(map(case, range(2, 10)), paths, cycle_every_n=3)
    found = [[example["inputs"][0] for example in read_examples([path])] for path in paths]
    assert found == [[2, 3, 4, 8, 9], [5, 6, 7]]


def test_a_failure_leaves_no_file(tmp_path):
    paths = generator_utils.dev_data_filenames("x", str(tmp_path), 1)
    with pytest.raises(ValueError, match="Empty generated field"):
        generator_utils.generate_files([case(3), {"inputs": []}], paths)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="packed"):
        generator_utils.shuffle_dataset(paths, extra_fn=list)


@pytest.mark.parametrize(
    "values",
    [
        [2.5],
        [3, 0.75],
        [4.0],
        np.array([1.5, 2.0]),
        np.array([[1, 2]]),
        ["text"],
        "12",
        [None],
        None,
        [2**64 + 5],
        [-(2**63) - 1],
    ],
)
def test_only_ids_are_accepted(tmp_path, values):
    paths = generator_utils.dev_data_filenames("x", str(tmp_path), 1)
    samples = [case(3), {"inputs": [5], "targets": values}]
    with pytest.raises(DataError, match=r"sample 2: targets: expected a list of integers, got "):
        generator_utils.generate_files(samples, paths)
    assert not list(tmp_path.iterdir())


def test_features_that_no_model_reads_may_be_anything(tmp_path, caplog):
    paths = generator_utils.dev_data_filenames("x", str(tmp_path), 1)
    others = {"raw_transcript": ["text"], "score": [0.5], "utt_id": [7]}
    generator_utils.generate_files(({**case(number), **others} for number in (2, 3)), paths)
    assert [example["utt_id"] for example in read_examples(paths)] == [[7], [7]]
    assert [set(example) for example in read_examples(paths)] == [{*case(2), "utt_id"}] * 2
    for name in ("raw_transcript", "score"):
        assert caplog.text.count(f"generate_files: {name} is left out: no model") == 1


@pytest.mark.parametrize("ids", [[3, 4.5], ["7"], None])
def test_an_encoder_that_returns_no_ids_is_an_error(ids):
    class Own:
        def encode(self, text):
            return ids

    with pytest.raises(UserError, match=r"Own\.encode\('cat'\): expected a list of integers, got "):
        AdaptedEncoder(Own(), 10).encode("cat")


def test_the_names_of_pad_and_eos_in_a_text_are_their_ids():
    encoder = text_encoder.TokenTextEncoder(None, vocab_list=["a", "UNK"], replace_oov="UNK")
    assert encoder.encode("a <EOS> b <pad>") == [2, 1, 3, 0]


def test_names_of_files():
    names = generator_utils.combined_data_filenames("x", "data", 2)
    assert names == [
        "data/x-train-00000-of-00002",
        "data/x-train-00001-of-00002",
        "data/x-dev-00000-of-00001",
        "data/x-test-00000-of-00001",
    ]


def test_downloads(tmp_path):
    (tmp_path / "here").write_text("text")
    copied = generator_utils.maybe_download(str(tmp_path / "to"), "file", str(tmp_path / "here"))
    assert pathlib.Path(copied).read_text() == "text"
    assert generator_utils.maybe_download(str(tmp_path), "here", "http://no.such.host/x") == str(
        tmp_path / "here"
    )
    with pytest.raises(UserError, match=r"cannot get gs://bucket/x: put the file at .*absent"):
        generator_utils.maybe_download(str(tmp_path), "absent", "gs://bucket/x")
    drive = generator_utils.maybe_download_from_drive
    assert drive(str(tmp_path), "here", "https://drive") == str(tmp_path / "here")
    with pytest.raises(UserError, match="with a browser"):
        drive(str(tmp_path), "absent", "https://drive")


def test_decompression(tmp_path):
    import gzip

    (tmp_path / "a.gz").write_bytes(gzip.compress(b"text"))
    for _ in range(2):
        generator_utils.gunzip_file(str(tmp_path / "a.gz"), str(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == b"text"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda packed: packed[:-12], "damaged or truncated"),
        (lambda packed: packed[:30] + b"\x55" + packed[31:], "damaged or truncated"),
        (lambda packed: b"text\n", "damaged or truncated"),
        (lambda packed: None, "no such file"),
    ],
)
def test_a_damaged_archive_is_named_and_not_unpacked(tmp_path, change, message):
    import gzip

    contents = change(gzip.compress(b"some text and more of it, other words" * 9))
    if contents is not None:
        (tmp_path / "b.gz").write_bytes(contents)
    with pytest.raises(UserError, match=rf"b\.gz.*{message}"):
        generator_utils.gunzip_file(str(tmp_path / "b.gz"), str(tmp_path / "b"))
    assert not (tmp_path / "b").exists()


def test_an_example_is_tensorflows():
    example = generator_utils.to_example({"ids": [1, 2], "text": ["a"], "score": [0.5]})
    feature = example.features.feature
    assert list(feature["ids"].int64_list.value) == [1, 2]
    assert list(feature["text"].bytes_list.value) == [b"a"]
    assert list(feature["score"].float_list.value) == [0.5]
    with pytest.raises(ValueError, match="Empty generated field"):
        generator_utils.to_example({"ids": []})
