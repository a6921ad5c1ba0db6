"""The vocabularies of a model as transformers reads them, with the names that they have there."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from t2t_lite.errors import UserError
from t2t_lite.interop.imports.fairseq_languages import LANGUAGES
from t2t_lite.interop.layouts.hugging_face import M2M100, MARIAN
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.language_tokens import TEXT
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.sentencepiece_model import (
    Normalization,
    PieceKind,
    has_our_rules,
    normalization_of,
    pieces_of,
    type_of,
)
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID, SPACE, TextEncoder, VocabType

_START = "<decoder start>"
_LONGEST = 512  # subwords of a source, as transformers warns
_UNSEEN = -1e4  # the score of a piece that no text has
# How our vocabularies spell two characters, so that a space is not taken for one of them.
_ESCAPES = (("\u2582", "\u2582a"), (SPACE, "\u2582b"))

# The settings of a tokenizer that name its languages, and whose they are.
_LANGUAGES = {"src_lang": "inputs", "tgt_lang": "targets"}
_NLLB_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")

_WithPieces = SentencePieceEncoder | ImportedEncoder


class HuggingFaceSide(NamedTuple):
    """The vocabulary of one side.

    Attributes:
        pieces: by id.
        ids: ours, by those of the written model; the start of the decoder has none.
        spm: the SentencePiece model.
        unknown: the id of what is unknown.
        special: ids that no text has.
    """

    pieces: Sequence[str]
    ids: Sequence[int]
    spm: bytes
    unknown: int
    special: Sequence[int]

    @classmethod
    def of(cls, encoder: TextEncoder, model_type: str) -> "HuggingFaceSide":
        """Arranges the vocabulary of an encoder.

        Args:
            encoder: of one side.
            model_type: of the written model.

        Raises:
            UserError: transformers has no such vocabulary.
        """
        if not isinstance(encoder, _WithPieces) or not encoder.model:
            raise UserError(
                f"{type(encoder).__name__}: Hugging Face's tokenizers have no such vocabulary, "
                "only SentencePiece's; export for CTranslate2 (--format=ctranslate2)"
            )
        if isinstance(encoder, ImportedEncoder) and (added := [*encoder.added_tokens]):
            raise UserError(
                f"the token {added[0]!r} was added to the vocabulary: such tokens are not written "
                "for transformers; export a SavedModel (--format=savedmodel)"
            )
        ids = _fairseq_order(encoder) if model_type == M2M100 else [*range(encoder.vocab_size)]
        pieces = [encoder.tokens[id_] for id_ in ids]
        special = [ids.index(id_) for id_ in sorted(encoder.special_ids)]
        return cls(pieces, ids, encoder.model, ids.index(encoder.unknown_id), special)

    def with_start(self) -> "HuggingFaceSide":
        """Returns the side with a piece more, which starts the decoder."""
        return self._replace(
            pieces=[*self.pieces, _START], special=[*self.special, len(self.pieces)]
        )


def _fairseq_order(encoder: _WithPieces) -> list[int]:
    """Returns our ids in the order of M2M100 and NLLB-200, which begin with <s>, pad and EOS."""
    start = encoder.tokens.index("<s>")
    first = [start, PAD_ID, EOS_ID]
    return [*first, *(id_ for id_ in range(encoder.vocab_size) if id_ not in first)]


def tokenizer_files(
    model_type: str, sides: Sequence[HuggingFaceSide], encoders: Mapping[str, TextEncoder]
) -> dict[str, bytes]:
    """Returns the files of a tokenizer by name.

    Args:
        model_type: of the written model.
        sides: the vocabularies of source and target.
        encoders: of "inputs" and "targets", in the languages to speak.

    Raises:
        UserError: transformers has no such tokenizer.
    """
    source, target = sides
    end, unknown, padding = (
        source.pieces[source.ids.index(id_)] for id_ in (EOS_ID, source.ids[source.unknown], PAD_ID)
    )
    config: dict[str, Any] = {
        "eos_token": end,
        "unk_token": unknown,
        "pad_token": padding,
        "model_max_length": _LONGEST,
        "clean_up_tokenization_spaces": _cleans_spaces(encoders["targets"]),
    }
    if model_type == M2M100:
        return _m2m100_files(source, encoders, config)
    _refuse_languages(encoders, model_type)
    files = {
        "source.spm": source.spm,
        "target.spm": target.spm,
        "vocab.json": _json({piece: id_ for id_, piece in enumerate(source.pieces)}),
    }
    is_separate = source.pieces != target.pieces
    if is_separate:
        table = {piece: id_ for id_, piece in enumerate(target.pieces)}
        files["target_vocab.json"] = _json(table)
    if model_type == MARIAN:
        config |= {"tokenizer_class": "MarianTokenizer", "separate_vocabs": is_separate}
    else:
        if is_separate or source.spm != target.spm:
            raise UserError(
                "source and target have different vocabularies, and Pegasus, transformers' "
                "pre-norm model, has only one; export for CTranslate2 (--format=ctranslate2)"
            )
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        files["tokenizer.json"] = _json(fast_tokenizer(source))
    return files | {"tokenizer_config.json": _json(config)}


def _refuse_languages(encoders: Mapping[str, TextEncoder], model_type: str) -> None:
    """Raises UserError if texts begin with tokens that the tokenizer would not put there."""
    inputs, targets = encoders["inputs"], encoders["targets"]
    # MarianMT's splits off a label such as >>deu<<.
    is_label = model_type == MARIAN and isinstance(inputs, ImportedEncoder)
    if targets.languages or (inputs.languages and not is_label):
        raise UserError(
            "texts begin with the token of a language, which the tokenizer of a "
            f"{model_type} model in transformers does not put there; export for CTranslate2 "
            "(--format=ctranslate2)"
        )


def _m2m100_files(
    side: HuggingFaceSide, encoders: Mapping[str, TextEncoder], config: dict[str, Any]
) -> dict[str, bytes]:
    """Returns the files of M2M100 or NLLB-200, whose texts begin with the token of a language."""
    codes = language_ids(side, encoders["inputs"])
    chosen = {name: chosen_language(encoders[key]) for name, key in _LANGUAGES.items()}
    config |= {"bos_token": "<s>"} | {name: code for name, code in chosen.items() if code}
    tokens = [side.pieces[id_] for id_ in codes.values()]
    files = {"sentencepiece.bpe.model": side.spm}
    if tokens[0] in codes:  # NLLB's tokens are its codes
        config |= {
            "tokenizer_class": "NllbTokenizer",
            "extra_special_tokens": tokens,
            # The ids, too: releases of transformers disagree about which comes first.
            "added_tokens_decoder": {
                str(id_): _added_token(piece)
                for id_, piece in enumerate(side.pieces)
                if piece in (*_NLLB_SPECIAL, *tokens)
            },
        }
    else:
        known = next((name for name, all_ in LANGUAGES.items() if [*all_] == [*codes]), None)
        first = min(codes.values())
        if known is None or [*codes.values()] != [*range(first, first + len(codes))]:
            raise UserError(
                "the languages of the vocabulary are not those of M2M100, which its tokenizer in "
                "transformers knows by heart; export for CTranslate2 (--format=ctranslate2)"
            )
        config |= {
            "tokenizer_class": "M2M100Tokenizer",
            "language_codes": known,
            "additional_special_tokens": tokens,
        }
        files["vocab.json"] = _json({piece: i for i, piece in enumerate(side.pieces[:first])})
    return files | {"tokenizer_config.json": _json(config)}


def language_ids(side: HuggingFaceSide, encoder: TextEncoder) -> dict[str, int]:
    """Returns the ids of the tokens of languages in the written model, from the least."""
    found = {code: side.ids.index(id_) for code, id_ in encoder.languages.items()}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def fast_tokenizer(side: HuggingFaceSide) -> dict[str, Any]:
    """Returns tokenizer.json: the SentencePiece model in the form of Hugging Face's tokenizers.

    Raises:
        UserError: the pieces of the table are not those of the SentencePiece model.
    """
    known = {piece.text for piece in pieces_of(side.spm)}
    named = {*side.special, side.ids.index(PAD_ID), side.ids.index(EOS_ID), side.unknown}
    ids = (id_ for id_, piece in enumerate(side.pieces) if piece not in known)
    if strange := [side.pieces[id_] for id_ in ids if id_ not in named]:
        raise UserError(
            f"the SentencePiece model has no piece {strange[0]!r}, which the vocabulary has: such "
            "a tokenizer.json cannot be written; export for CTranslate2 (--format=ctranslate2)"
        )
    end = side.pieces[side.ids.index(EOS_ID)]
    added = [{"id": id_, **_added_token(side.pieces[id_])} for id_ in sorted(named)]
    sequence, stop = (
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": end, "type_id": 0}},
    )
    rules = normalization_of(side.spm)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": _normalizers(side.spm, rules)},
        "pre_tokenizer": _pre_tokenizer(side.spm),
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [sequence, stop],
            "pair": [sequence, {"Sequence": {"id": "B", "type_id": 0}}, stop],
            "special_tokens": {end: {"id": end, "ids": [side.ids.index(EOS_ID)], "tokens": [end]}},
        },
        "decoder": {"type": "Sequence", "decoders": _decoders(side.spm, rules)},
        "model": _model(side),
    }


def _added_token(content: str) -> dict[str, Any]:
    """Returns what Hugging Face's tokenizers know of a token that decoded text leaves out."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"content": content, **flags, "special": True}


def _replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _normalizers(spm: bytes, rules: Normalization) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    if has_our_rules(spm):
        steps += [_replace({"String": old}, new) for old, new in _ESCAPES]
    elif rules.charsmap:
        charsmap = base64.b64encode(rules.charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    if rules.removes_extra_spaces:
        steps += [
            {"type": "Strip", "strip_left": True, "strip_right": True},
            _replace({"Regex": " {2,}"}, " "),
        ]
    if rules.adds_prefix:
        steps.append({"type": "Prepend", "prepend": " "})
    return [*steps, _replace({"String": " "}, SPACE)]


def _pre_tokenizer(spm: bytes) -> dict[str, Any] | None:
    """Returns what keeps user-defined symbols whole, and `<0x41>` from becoming a byte's piece.

    In Hugging Face's unigram models, text may match any piece, however low its score, and symbols
    have the best. In its models of BPE without merges to symbols, it may if it stands alone.
    """
    if type_of(spm) == VocabType.SENTENCEPIECE_UNIGRAM:
        return _split("<(?=0x[0-9A-F]{2}>)", "MergedWithPrevious")
    if symbols := _user_symbols(spm):
        splits = [_split("|".join(map(re.escape, symbols)), "Isolated")]
        if _has_bytes(spm):
            splits.append(_split(r"\A<(?=0x[0-9A-F]{2}>\Z)", "MergedWithPrevious"))
        return {"type": "Sequence", "pretokenizers": splits}
    return None


def _split(regex: str, behavior: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": False}


def _has_bytes(spm: bytes) -> bool:
    return any(piece.kind == PieceKind.BYTE for piece in pieces_of(spm))


def _user_symbols(spm: bytes) -> list[str]:
    """Returns the pieces that a text keeps whole wherever they occur, the longest first."""
    found = [piece.text for piece in pieces_of(spm) if piece.kind == PieceKind.USER_DEFINED]
    return sorted(found, key=len, reverse=True)


def _decoders(spm: bytes, rules: Normalization) -> list[dict[str, Any]]:
    steps = [_replace({"String": SPACE}, " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
    if has_our_rules(spm):
        steps += [_replace({"String": new}, old) for old, new in reversed(_ESCAPES)]
    if rules.adds_prefix:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return steps


def _model(side: HuggingFaceSide) -> dict[str, Any]:
    """Returns the part of tokenizer.json that splits normalized text."""
    pieces = {piece.text: piece for piece in pieces_of(side.spm)}
    has_bytes = _has_bytes(side.spm)
    found = {
        text: piece.score
        for text, piece in pieces.items()
        if piece.kind in (PieceKind.NORMAL, PieceKind.USER_DEFINED)
    }
    if type_of(side.spm) == VocabType.SENTENCEPIECE_UNIGRAM:
        vocab = [[piece, found.get(piece, _UNSEEN)] for piece in side.pieces]
        return {
            "type": "Unigram",
            "unk_id": side.unknown,
            "vocab": vocab,
            "byte_fallback": has_bytes,
        }
    merges = [
        (-score, piece[:cut], piece[cut:])
        for piece, score in found.items()
        for cut in range(1, len(piece))
        if piece[:cut] in found and piece[cut:] in found
    ]
    merges.sort(key=lambda merge: merge[0])
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": side.pieces[side.unknown],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": has_bytes,
        "ignore_merges": bool(_user_symbols(side.spm)),  # no merges lead to them
        "vocab": {piece: id_ for id_, piece in enumerate(side.pieces)},
        "merges": [[left, right] for _, left, right in merges],
    }


def _json(value: Any) -> bytes:
    return f"{json.dumps(value, ensure_ascii=False, indent=1)}\n".encode()


def speaks_as_m2m100(encoders: Mapping[str, TextEncoder]) -> bool:
    """Whether texts of both sides begin with the token of their own language, as imported."""
    return all(
        isinstance(encoder, ImportedEncoder) and encoder.languages and encoder.language_of == TEXT
        for encoder in (encoders["inputs"], encoders["targets"])
    )


def chosen_language(encoder: TextEncoder) -> str:
    """Returns the code of the language with whose token texts begin; "": none."""
    return encoder.language if isinstance(encoder, ImportedEncoder) else ""


def _cleans_spaces(encoder: TextEncoder) -> bool:
    return isinstance(encoder, ImportedEncoder) and encoder.cleans_spaces
