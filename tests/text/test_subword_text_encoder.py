import collections
import itertools
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import lines
from support.growth import assert_grows_gently
from t2t_lite.errors import DataError
from t2t_lite.text import subword_text_encoder, subword_vocabulary, text_files
from t2t_lite.text.subword_text_encoder import SubwordTextEncoder, count_tokens

TEXT = [*lines.TEXT[:3], "Kleine Boote_im_Hafen: C:\\boot, 100 % klein!"]


@pytest.fixture(scope="module")
def small():
    return SubwordTextEncoder.build_from_token_counts(count_tokens(TEXT), min_count=2)


@pytest.fixture(scope="module")
def published(shared_data):
    folder = shared_data / "t2t"
    return {
        size: SubwordTextEncoder.load(folder / f"vocab.translate_ende_wmt{size}.{name}.subwords")
        for size, name in {"8k": "8192", "32k": "32768"}.items()
    }


def test_unknown_characters_are_those_written_as_numbers(small):
    assert small.unknown("A ☃ boat_\\, ü ☃") == ["☃", "ü", "☃"]
    assert small.unknown("The  boat_\\") == []


class TestGolden:
    def test_encode(self, golden, published):
        lines = text_files.read_lines(golden / "subword_encode.jsonl")
        for case in map(json.loads, lines):
            for size, encoder in published.items():
                assert encoder.encode(case["text"]) == case[f"ids_{size}"]
                assert encoder.decode(case[f"ids_{size}"]) == case["text"]

    def test_decode(self, golden, published):
        for case in json.loads((golden / "subword_decode.json").read_text()):
            text = case["text_strip_extraneous"]
            # T2T strips trailing pads and EOS; we leave all of them out.
            expected = text.replace("<pad>", "")
            assert published[case["vocab"]].decode(case["ids"]) == expected

    @pytest.mark.integration
    @pytest.mark.parametrize(
        "name",
        [
            *("100", "300", "512", "1024", "2048", "2048.maxlen8", "512.reserved"),
            *("min_count5", "min_count20", "min_count5.iterations1"),
        ],
    )
    def test_build(self, golden, tmp_path, name):
        folder = golden / "vocab_build"
        builds = json.loads((folder / "builds.json").read_text())["builds"]
        build = next(build for build in builds if build["file"] == f"vocab.{name}.subwords")
        counts = count_tokens(text_files.read_lines(folder / "corpus.txt"))
        options = {
            "max_subtoken_length": build.get("max_subtoken_length"),
            "reserved_tokens": build.get("reserved_tokens", [])[2:],
        }
        if "target_size" in build:
            encoder = SubwordTextEncoder.build_to_target_size(
                build["target_size"], counts, **options
            )
        else:
            encoder = SubwordTextEncoder.build_from_token_counts(
                counts, build["min_count"], build["num_iterations"], **options
            )
        encoder.save(tmp_path / "vocab")
        assert (tmp_path / "vocab").read_bytes() == (folder / build["file"]).read_bytes()
        assert encoder.vocab_size == build["vocab_size"]
        for text, ids in build.get("ids_of", {}).items():
            assert encoder.encode(text) == ids


class TestEncode:
    def test_recorded_ids(self, small):
        subtokens = [small._subtokens[i] for i in small.encode("the boat_ № \\")]
        assert subtokens == ["the_", "boat_", *"\\u \\8470; \\\\_"]

    @given(st.text())
    def test_every_text_survives_a_round_trip(self, small, text):
        assert small.decode(small.encode(text)) == text

    @pytest.mark.parametrize(
        "text", ["", " ", "_", "\\", "\\u", "\\95;", "a\nb", "\0", "<pad>", "'", "\u3000x", "▁"]
    )
    def test_odd_texts_survive_a_round_trip(self, small, text):
        assert small.decode(small.encode(text)) == text

    def test_a_full_cache_starts_over(self, small, monkeypatch):
        monkeypatch.setattr("t2t_lite.text.subword_text_encoder._CACHED_TOKENS", 3)
        texts = [f"w{i}" for i in range(20)]
        assert [small.decode(small.encode(text)) for text in texts] == texts
        assert len(small._cache) <= 3


class TestDecode:
    @given(st.lists(st.integers(-3, 300)))
    def test_accepts_any_ids(self, small, ids):
        text = small.decode(ids)
        assert text.encode("utf-8").decode("utf-8") == text

    def test_numbers_that_are_no_characters(self, small):
        for number in ("1114112", "55296", "9" * 5000):
            subtokens = [*"\\", *number, ";_"]
            ids = [i for s in subtokens for i in map(small._subtokens.index, s)]
            assert small.decode(ids) == "〓"


class TestFile:
    def test_save_and_load(self, small, tmp_path):
        small.save(tmp_path / "vocab")
        loaded = SubwordTextEncoder.load(tmp_path / "vocab")
        assert loaded._subtokens == small._subtokens
        assert loaded.encode(TEXT[3]) == small.encode(TEXT[3])

    def test_quotes_may_be_absent(self, tmp_path):
        words = SubwordTextEncoder.build_from_token_counts(count_tokens(["ab", "ab", "b"]), 2)
        (tmp_path / "vocab").write_text("\n".join(words._subtokens), encoding="utf-8")
        assert SubwordTextEncoder.load(tmp_path / "vocab").encode("abb ab") == words.encode(
            "abb ab"
        )

    def test_the_line_end_in_a_file_of_t2ts(self, small, tmp_path):
        path = tmp_path / "vocab"
        small.save(path)
        with path.open("a", encoding="utf-8") as file:
            file.write("'\n'\n")
        loaded = SubwordTextEncoder.load(path)
        assert loaded.vocab_size == small.vocab_size + 2
        assert loaded.encode("a'b\n") == small.encode("a'b\n")
        assert loaded.decode([small.vocab_size, *loaded.encode("a")]) == "a"

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda lines: [], "line 1: expected '<pad>_', got ''"),
            (lambda lines: lines[:1], "line 2: expected '<EOS>_', got ''"),
            (lambda lines: lines[2:], "line 1: expected '<pad>_'"),
            (lambda lines: [*lines[:9], "'bo", *lines[10:]], 'line 10: "\'bo" lacks a quote'),
            (lambda lines: [line for line in lines if line != "'r'"], r"line \d+: .* contains 'r'"),
            (lambda lines: [line for line in lines if line != "'7'"], r"line 77: ends without '7'"),
        ],
    )
    def test_damaged_file_is_named_with_its_line(self, small, tmp_path, spoil, message):
        path = tmp_path / "vocab.subwords"
        small.save(path)
        lines = spoil(text_files.read_lines(path))
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        with pytest.raises(DataError, match=f"vocab.subwords, {message}"):
            SubwordTextEncoder.load(path)

    def test_bytes_that_are_not_utf8(self, tmp_path):
        (tmp_path / "vocab").write_bytes(b"'<pad>_'\n'<EOS>_'\n'\xff'\n")
        with pytest.raises(DataError, match="vocab, line 3: byte 0xff"):
            SubwordTextEncoder.load(tmp_path / "vocab")


def by_all_substrings(token_counts, min_count, passes, reserved_tokens, max_length):
    """The rule taken literally: every substring at every boundary, in turn."""
    reserved_tokens = ["<pad>", "<EOS>", *reserved_tokens]
    alphabet = subword_text_encoder._alphabet([*token_counts, *reserved_tokens])
    reserved = [subword_text_encoder.escape(token, alphabet) for token in reserved_tokens]
    subtokens = alphabet
    for _ in range(passes):
        found = collections.Counter()
        for token, count in token_counts.items():
            word = subword_text_encoder.escape(token, alphabet)
            start = 0
            while start < len(word):
                ends = range(start + 1, len(word) + 1)
                for end in ends if max_length is None else ends[: max_length - 1]:
                    found[word[start:end]] += count
                start = max(end for end in ends if word[start:end] in subtokens)
        chosen = []
        for subtoken in sorted(found, key=len, reverse=True):
            count = found[subtoken]
            if count >= min_count and len(subtoken) > 1:
                chosen.append((count, subtoken))
                for end in range(1, len(subtoken)):
                    found[subtoken[:end]] -= count
        chosen += [(found[character], character) for character in alphabet]
        subtokens = [*reserved, *(subtoken for _, subtoken in sorted(chosen, reverse=True))]
    return subtokens


class TestBuild:
    def test_recorded_vocabulary(self, small):
        assert small._subtokens[:14] == [
            *("<pad>_", "<EOS>_", "_", "s_", "the_", "o", "in_"),
            *("e_", "t_", "small_", "im_", "harbour_", "a", "._"),
        ]
        assert small.vocab_size == 78

    def test_subtokens_occur_often_enough_unless_single(self):
        encoder = SubwordTextEncoder.build_from_token_counts({"abc": 3, "abd": 2}, 3)
        assert "abc_" in encoder._subtokens
        assert "abd_" not in encoder._subtokens
        assert "d" in encoder._subtokens

    def test_occurrences_in_a_longer_subtoken_do_not_count_for_its_prefixes(self):
        encoder = SubwordTextEncoder.build_from_token_counts({"abc": 3, "abd": 2, "abe": 1}, 3)
        assert "ab" in encoder._subtokens
        encoder = SubwordTextEncoder.build_from_token_counts({"abc": 3, "abd": 2}, 3)
        assert "ab" not in encoder._subtokens

    def test_max_subtoken_length_is_exclusive_as_in_t2t(self):
        encoder = SubwordTextEncoder.build_from_token_counts(
            {"abcdefgh": 9}, 2, max_subtoken_length=4
        )
        assert max(map(len, encoder._subtokens[2:])) == 3

    def test_reserved_tokens_follow_eos(self):
        encoder = SubwordTextEncoder.build_from_token_counts(
            {"x": 5, "SEPARATE": 4}, 2, reserved_tokens=["SEP", "a_b"]
        )
        assert encoder._subtokens[:4] == ["<pad>_", "<EOS>_", "SEP_", "a\\ub_"]
        assert encoder.encode("SEP x")[0] == 2

    @pytest.mark.integration
    @given(
        st.dictionaries(
            st.text("abß_\n\\ ", min_size=1, max_size=9), st.integers(1, 9), min_size=1
        ),
        st.integers(1, 12),
        st.sampled_from([None, 2, 3, 200]),
        st.lists(st.text("ab_", min_size=1, max_size=4), max_size=2),
    )
    def test_equals_counting_all_substrings(self, counts, min_count, length, reserved):
        encoder = SubwordTextEncoder.build_from_token_counts(
            counts, min_count, 3, reserved_tokens=reserved, max_subtoken_length=length
        )
        assert encoder._subtokens == by_all_substrings(counts, min_count, 3, reserved, length)

    @pytest.mark.integration
    def test_words_of_endless_letters_get_shorter_subtokens(self, monkeypatch):
        letters = random.Random(3)
        counts = {"".join(letters.choices("abcd", k=200)): 1 for _ in range(2)} | {"cabs": 9}
        whole = SubwordTextEncoder.build_from_token_counts(counts, 1)._subtokens
        assert max(map(len, whole)) > 100
        monkeypatch.setattr(subword_vocabulary, "_MOST_SUBSTRINGS", 3000)
        found = SubwordTextEncoder.build_from_token_counts(counts, 1)._subtokens
        longest = max(map(len, found))
        assert 8 <= longest < 20  # 400 places, where substrings of more than 5 letters differ
        assert found == by_all_substrings(counts, 1, 4, [], longest + 1)
        monkeypatch.setattr(subword_vocabulary, "_MOST_SUBSTRINGS", 10**7)
        assert SubwordTextEncoder.build_from_token_counts(counts, 1)._subtokens == whole

    def test_target_below_the_alphabet_gives_the_alphabet(self):
        encoder = SubwordTextEncoder.build_to_target_size(5, count_tokens(TEXT))
        assert all(len(subtoken) == 1 for subtoken in encoder._subtokens[2:])

    def test_nearest_size_wins(self):
        counts = count_tokens(TEXT * 3)
        sizes = [
            SubwordTextEncoder.build_from_token_counts(counts, n).vocab_size for n in range(1, 60)
        ]
        for target in (70, 110, 140):
            got = SubwordTextEncoder.build_to_target_size(target, counts, 1, 59).vocab_size
            assert abs(got - target) == min(abs(size - target) for size in sizes)

    def test_the_order_of_the_text_does_not_matter(self):
        vocabularies = [
            SubwordTextEncoder.build_from_token_counts(count_tokens(lines), 2)._subtokens
            for lines in itertools.permutations(TEXT)
        ]
        assert all(vocabulary == vocabularies[0] for vocabulary in vocabularies)

    def test_line_ends_stay_out_of_the_file(self, tmp_path):
        encoder = SubwordTextEncoder.build_from_token_counts(count_tokens(["a\nb", "a\nb"]), 1)
        encoder.save(tmp_path / "vocab")
        loaded = SubwordTextEncoder.load(tmp_path / "vocab")
        assert loaded.decode(loaded.encode("a\nb")) == "a\nb"


def test_one_long_subtoken_does_not_slow_the_others_down():
    sound = SubwordTextEncoder.build_from_token_counts({"some": 5, "text": 3}, 1)

    def with_odd_one(n):
        return SubwordTextEncoder([*sound._subtokens, "s" * (100 * n)]), "some" * n

    odd, text = with_odd_one(10_000)
    assert odd.encode(text) == sound.encode(text)
    assert_grows_gently(with_odd_one, lambda both: both[0].encode(both[1]), 1000)


def test_a_vocabulary_is_built_from_a_very_long_word_in_linear_time():
    def build(counts):
        return SubwordTextEncoder.build_from_token_counts(counts, 2)

    assert_grows_gently(lambda n: {"a" * n: 1, "b": 2}, build, 2000)
    built = build({"a" * 20_000: 1, "b": 2})
    assert built.decode(built.encode("aab a")) == "aab a"
