"""Small tokenizers of random words, in the layouts of Hugging Face's translation models.

For make_hugging_face_models.py, whose requirements it has.
"""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import sentencepiece
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB_CODES

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
M2M100_CODES = FAIRSEQ_LANGUAGE_CODES["m2m100"]


def write_marian(folder: pathlib.Path, seed: int, size: int, separate: bool) -> dict[str, int]:
    """Writes a tokenizer of MarianMT, from English to German.

    Args:
        folder: of the model.
        seed: of the words.
        size: pieces of the SentencePiece model.
        separate: whether there is a vocabulary for each side; both are equal.

    Returns:
        The ids and sizes in the model's config.
    """
    source = folder / "source.spm"
    pieces = _train(source, seed, size, "unigram", bos_id=-1, eos_id=0, unk_id=1)
    (folder / "target.spm").write_bytes(source.read_bytes())
    vocabulary = {piece: i for i, piece in enumerate([*pieces, "<pad>"])}
    _write_json(folder / "vocab.json", vocabulary)
    if separate:
        _write_json(folder / "target_vocab.json", vocabulary)
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": "en",
        "target_lang": "de",
        "model_max_length": 512,
        "separate_vocabs": separate,
    }
    _write_json(folder / "tokenizer_config.json", settings)
    padding = len(pieces)
    return {
        "vocab_size": len(vocabulary),
        "decoder_vocab_size": len(vocabulary),
        "pad_token_id": padding,
        "decoder_start_token_id": padding,
        "eos_token_id": 0,
        "bos_token_id": 0,
        "forced_eos_token_id": 0,
    }


def write_m2m100(folder: pathlib.Path, seed: int, size: int) -> dict[str, int]:
    """Writes a tokenizer of M2M100; see `write_marian`."""
    pieces = _train(_sentencepiece(folder), seed, size, "unigram", unk_id=0, bos_id=1, eos_id=2)
    vocabulary = [*SPECIAL, *pieces[3:]]
    _write_json(folder / "vocab.json", {piece: i for i, piece in enumerate(vocabulary)})
    unused = 8
    settings = {
        "tokenizer_class": "M2M100Tokenizer",
        "src_lang": "en",
        "tgt_lang": None,
        "num_madeup_words": unused,
        "additional_special_tokens": [f"__{code}__" for code in M2M100_CODES],
    }
    _write_json(folder / "tokenizer_config.json", settings)
    return _ids(len(vocabulary) + len(M2M100_CODES) + unused)


def write_nllb(folder: pathlib.Path, seed: int, size: int) -> dict[str, int]:
    """Writes a tokenizer of NLLB-200; see `write_marian`."""
    pieces = _train(_sentencepiece(folder), seed, size, "bpe", unk_id=0, bos_id=1, eos_id=2)
    vocabulary = [*SPECIAL, *pieces[3:]]
    settings = {
        "tokenizer_class": "NllbTokenizer",
        "src_lang": "eng_Latn",
        "tgt_lang": None,
        "additional_special_tokens": list(NLLB_CODES),
    }
    _write_json(folder / "tokenizer_config.json", settings)
    return _ids(len([*vocabulary, *NLLB_CODES, "<mask>"]))


def _ids(size: int) -> dict[str, int]:
    """Returns the ids and the size in the config of M2M100 and NLLB-200."""
    return {
        "vocab_size": size,
        "pad_token_id": SPECIAL.index("<pad>"),
        "eos_token_id": SPECIAL.index("</s>"),
        "bos_token_id": SPECIAL.index("<s>"),
        "decoder_start_token_id": SPECIAL.index("</s>"),
    }


def _sentencepiece(folder: pathlib.Path) -> pathlib.Path:
    return folder / "sentencepiece.bpe.model"


def _train(path: pathlib.Path, seed: int, size: int, kind: str, **special: int) -> list[str]:
    """Trains a SentencePiece model of random words; returns its pieces by id."""
    with path.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(random_lines(seed)),
            model_writer=file,
            vocab_size=size,
            model_type=kind,
            normalization_rule_name="identity",
            minloglevel=2,
            **special,
        )
    model = sentencepiece.SentencePieceProcessor(str(path))
    return [model.id_to_piece(i) for i in range(model.get_piece_size())]


def random_lines(seed: int) -> Sequence[str]:
    """Returns lines of random words."""
    rng = np.random.default_rng(seed)
    letters = list("abdefgiklmnoprstu")
    words = ["".join(rng.choice(letters, rng.integers(2, 7))) for _ in range(300)]
    return [" ".join(rng.choice(words, rng.integers(3, 9))) for _ in range(500)]


def _write_json(path: pathlib.Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False) + "\n")
