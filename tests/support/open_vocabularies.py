"""Vocabularies in the layouts of open models, with SentencePiece models trained on a few lines."""

import io
import pathlib
from typing import Any

import sentencepiece

from t2t_lite.text.imported_encoder import write_encoder
from t2t_lite.text.language_tokens import TEXT, TRANSLATION

SOURCE = ["A sentence about the sense of tents.", "The cats see a white house, and a tree."] * 9
TARGET = ["Ein Satz über den Sinn von Zelten.", "Die Katzen sehen ein Haus und einen Baum."] * 9


def trained(lines: list[str], size: int, **settings: Any) -> bytes:
    """Returns a SentencePiece model as open models have them, with ids of its own."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=written,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=3,
        **settings,
    )
    return written.getvalue()


def normal_pieces(model: bytes) -> list[str]:
    """Returns the pieces that stand for text."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = [i for i in range(len(processor)) if not processor.is_control(i)]
    return [processor.id_to_piece(i) for i in ids if not processor.is_unknown(i)]


def write_opus(folder: pathlib.Path, languages: tuple[str, ...] = ()) -> None:
    """Writes OPUS-MT's layout: a model for each side, one table, the target's language first."""
    models = trained(SOURCE, 50), trained(TARGET, 56)
    pieces = dict.fromkeys(piece for model in models for piece in normal_pieces(model))
    table = ["<pad>", "</s>", "<unk>", *pieces, *(f">>{code}<<" for code in languages)]
    first = len(table) - len(languages)
    ids = {code: first + number for number, code in enumerate(languages)}
    for side, model in zip(("source", "target"), models, strict=True):
        known = side == "source" and languages
        write_encoder(
            folder / f"vocab.imported.{side}.json",
            table,
            2,
            model=model,
            special=[*ids.values()],
            languages=ids if known else {},
            language_of=TRANSLATION if known else "",
            language=languages[0] if known else "",
        )


def write_m2m100(
    folder: pathlib.Path, languages: tuple[str, str] = ("en", "de"), **others: Any
) -> None:
    """Writes M2M100's layout: one model, and on both sides the language of the text first.

    For the other arguments, see `write_encoder`.
    """
    model = trained([*SOURCE, *TARGET], 70)
    table = ["<pad>", "</s>", "<unk>", "<s>", *normal_pieces(model), "__de__", "__en__"]
    ids = {"de": len(table) - 2, "en": len(table) - 1}
    for side, language in zip(("source", "target"), languages, strict=True):
        write_encoder(
            folder / f"vocab.imported.{side}.json",
            table,
            2,
            model=model,
            special=[3, *ids.values()],
            languages=ids,
            language_of=TEXT,
            language=language,
            **others,
        )
