"""Makes tokenizers in the layouts of Hugging Face's models, and records what transformers reads.

Needs `pip install transformers sentencepiece protobuf` (transformers 5), none of which the project
depends on. From the repository, with a Python that has them:

    python tests/support/make_tokenizers.py --output_dir=FOLDER [--train=FILE] [--lines=FILE]

Each layout becomes a folder as `save_pretrained` writes it, NLLB's with its SentencePiece model as
published. recorded.json has the ids of lines in each language, as sources and as targets, and the
text that these decode to.
"""

import argparse
import contextlib
import io
import json
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import sentencepiece

# A few sentences in five languages, and lines in which tokenizers may differ.
SENTENCES = [
    "The price of the tickets is 12.50 euros.",
    "Tomorrow morning the train leaves at half past seven.",
    "Who has seen the little cat behind the house?",
    "Der Preis der Karten beträgt 12,50 Euro.",
    "Morgen früh fährt der Zug um halb acht ab.",
    "Wer hat die kleine Katze hinter dem Haus gesehen?",
    "Le prix des billets est de 12,50 euros.",
    "Demain matin, le train part à sept heures et demie.",
    "Qui a vu le petit chat derrière la maison ?",
    "Cena vstupenek je 12,50 eura.",
    "Zítra ráno odjíždí vlak v půl osmé.",
    "Kdo viděl tu malou kočku za domem?",
    "切符の値段は12.50ユーロです。",
    "明日の朝、電車は七時半に出ます。",
    "家の後ろの小さな猫を見た人は誰ですか。",
]
ODD = [
    "a  b   c",
    "☃ and ☂☂ and 😀",
    "cafe\u0301 café ﬁne １２ ½ …",
    "no\u00a0break, soft\u00adhyphen, zero\u200bwidth, ideographic\u3000space",
    "x\ty",
    "<unknown> & [mask] >> quoted << @@",
    "“quotes” „unten“ «guillemets» – dash — dash",
    "ABCdef 0123456789 a_b-c/d\\e",
    ">> no language",
]
# Normalization like NFKC's, in a small file: characters in hexadecimal, and what replaces them.
RULES = ["9\t20", "A0\t20", "3000\t20", "200B\t20", "AD\t", "FB01\t66 69", "FF11\t31"]
CODES = {
    "marian": [">>deu<<", ">>fra<<", ">>ces<<", ">>jpn<<"],
    "m2m100": ["en", "de", "fr", "cs", "ja"],
    "nllb": ["eng_Latn", "deu_Latn", "fra_Latn", "ces_Latn", "jpn_Jpan"],
}
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def make(folder: pathlib.Path, text: Sequence[str], lines: Sequence[str], **training: Any) -> None:
    """Makes all layouts in a folder.

    Args:
        folder: is created.
        text: what the SentencePiece models are trained on.
        lines: those whose ids are recorded.
        **training: of the models.
    """
    recorded = {}
    for layout in CODES:
        path = folder / layout
        path.mkdir(parents=True)
        make_one = _make_marian if layout == "marian" else _make_fairseq
        recorded[layout] = make_one(path, layout, text, lines, training)
    contents = json.dumps({"lines": list(lines), **recorded}, ensure_ascii=False)
    (folder / "recorded.json").write_text(contents.replace("}, ", "},\n") + "\n")


def _make_marian(
    path: pathlib.Path, layout: str, text: Sequence[str], lines: Sequence[str], training: Any
) -> dict[str, Any]:
    """Makes a model that translates from English, with a vocabulary of both sides."""
    from transformers import MarianTokenizer

    # The source's model does not know all that the target's knows.
    source = _train(path / "source.spm", text[: len(text) // 5], "unigram", **training)
    target = _train(path / "target.spm", text[len(text) // 5 :], "unigram", **training)
    pieces = dict.fromkeys(["</s>", "<unk>", *source, *target, *CODES[layout], "<pad>"])
    _write(path / "vocab.json", {piece: id_ for id_, piece in enumerate(pieces)})
    _write(path / "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer"})
    tokenizer = MarianTokenizer.from_pretrained(path)
    tokenizer.save_pretrained(path)
    (path / "tokenizer_config.json").unlink()  # not read
    sources = [f"{CODES[layout][0]} {line}" for line in lines]
    return {
        "padding": len(pieces) - 1,
        "end": 0,
        "size": len(pieces),
        "languages": {"deu": _record(tokenizer, sources, lines)},
    }


def _make_fairseq(
    path: pathlib.Path, layout: str, text: Sequence[str], lines: Sequence[str], training: Any
) -> dict[str, Any]:
    """Makes a model of many languages, whose text begins with the token of its own."""
    from transformers import M2M100Tokenizer, NllbTokenizer
    from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES as M2M100
    from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES as NLLB

    spm = path / "sentencepiece.bpe.model"
    pieces = _train(spm, text, "bpe", unk_id=0, bos_id=1, eos_id=2, **training)
    kind, tokens = NllbTokenizer, NLLB
    if layout == "m2m100":
        ids = {piece: id_ for id_, piece in enumerate([*SPECIAL, *pieces])}
        _write(path / "vocab.json", ids)
        kind, tokens = M2M100Tokenizer, [f"__{code}__" for code in M2M100["m2m100"]]
    _write(path / "tokenizer_config.json", {"additional_special_tokens": tokens})
    tokenizer = kind.from_pretrained(path)
    tokenizer.save_pretrained(path)
    languages = {}
    for code in CODES[layout]:
        tokenizer.src_lang = tokenizer.tgt_lang = code
        languages[code] = _record(tokenizer, lines, lines)
    # The model has more rows than the tokenizer has tokens.
    return {"padding": 1, "end": 2, "size": len(tokenizer) + 8, "languages": languages}


def _record(tokenizer: Any, sources: Sequence[str], targets: Sequence[str]) -> dict[str, Any]:
    target_ids = [tokenizer(text_target=line).input_ids for line in targets]
    return {
        "sources": [tokenizer(line).input_ids for line in sources],
        "targets": target_ids,
        "texts": [tokenizer.decode(ids, skip_special_tokens=True).strip() for ids in target_ids],
    }


def _train(path: pathlib.Path, text: Sequence[str], kind: str, **training: Any) -> list[str]:
    """Trains a SentencePiece model; returns its pieces after the three special ones."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_writer=written,
        model_type=kind,
        hard_vocab_limit=False,
        minloglevel=2,
        **training,
    )
    path.write_bytes(written.getvalue())
    model = sentencepiece.SentencePieceProcessor(str(path))
    return [model.id_to_piece(id_) for id_ in range(3, len(model))]


def _write(path: pathlib.Path, contents: Any) -> None:
    path.write_text(json.dumps(contents, ensure_ascii=False, indent=0) + "\n")


def main() -> None:
    """Makes the tokenizers; by default those of the fixtures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    parser.add_argument("--train", type=pathlib.Path, help="text to train on")
    parser.add_argument("--lines", type=pathlib.Path, help="lines to record")
    args = parser.parse_args()
    if args.train is None:
        folder = args.output_dir.resolve()
        with tempfile.TemporaryDirectory() as rules, contextlib.chdir(rules):
            pathlib.Path("rules.tsv").write_text("\n".join(RULES) + "\n")  # the model has the name
            small = {"vocab_size": 150, "normalization_rule_tsv": "rules.tsv"}
            make(folder, SENTENCES * 2, [*SENTENCES[::2], *ODD], **small)
    else:
        text, lines = (p.read_text().split("\n")[:-1] for p in (args.train, args.lines))
        make(args.output_dir, text, lines, vocab_size=6000, character_coverage=0.9995)


if __name__ == "__main__":
    main()
