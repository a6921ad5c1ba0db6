"""Makes random Hugging Face models with unusual settings, and records what transformers translates.

Needs what make_hugging_face_models.py needs. From the repository, with a Python that has it:

    python tests/support/make_hugging_face_texts.py --output_dir=FOLDER [--seeds=1]

Each model becomes a folder as transformers saves it, with records/texts.json in it: the languages,
sources, and the translations by the model's own search. The models have added tokens of all kinds,
several ids that end an output, least and greatest lengths, and a forced end. Sources whose
translations depend on rounding are left out.
"""

import argparse
import json
import pathlib
import re
import shutil
from typing import Any

import make_hugging_face_models as models
import numpy as np
import random_tokenizers
import torch
import transformers
from tokenizers import AddedToken

SOURCES = 60
# Added to the vocabularies: text, whole words, parts of other words, and what no text shows.
ADDED = [
    AddedToken("<term>", normalized=False),
    AddedToken("XY", single_word=True),
    AddedToken("abi"),
    AddedToken("xy z"),
    AddedToken("<2x>", special=True, normalized=False),
]


def make(family: str, seed: int, folder: pathlib.Path) -> None:
    """Makes a model and the records."""
    rng = np.random.default_rng([seed, 7])
    kind = models.random_kind(family, seed)
    kind = models.dataclasses.replace(kind, dtype="float32", layout="safetensors")
    folder.mkdir(parents=True)
    ids = models.write_tokenizer(kind, folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    cleans = bool(rng.random() < 0.5)
    settings["clean_up_tokenization_spaces"] = cleans
    path.write_text(json.dumps(settings))
    tokenizer = classes(family)[1].from_pretrained(folder)
    is_bare = family == "m2m100" and seed % 2 == 0
    if not is_bare:
        tokenizer.add_tokens(ADDED)
    config = {**kind.config, **ids, "max_position_embeddings": 64}
    torch.manual_seed(seed)
    model = classes(family)[0](classes(family)[2](**config)).eval()
    rows = max(tokenizer.get_vocab().values()) + 1
    model.resize_token_embeddings(max(rows, model.config.vocab_size), mean_resizing=False)
    models.randomize(model, kind)
    end = model.config.eos_token_id
    model.generation_config = transformers.GenerationConfig(**models.search_of(kind, {**config}))
    sources = models.random_sources(model, rng, 60)
    if family == "marian":
        models.fit_end(model, sources, slope=0.6, middle=6, smallness=10)
    else:
        with torch.no_grad():
            for name, values in model.named_parameters():
                if "encoder_attn" in name and name.endswith("weight") and "norm" not in name:
                    values *= 3  # or all outputs would be the same
    outputs = models.generate(model, sources, num_beams=1, do_sample=False)
    ids, counts = np.unique(outputs[:, 3:8], return_counts=True)
    frequent = ids[np.argsort(-counts)]
    others = [id_ for id_ in frequent.tolist() if id_ not in (end, model.config.pad_token_id)]
    generation = {
        "num_beams": int(rng.choice([2, 3, 4])),
        "max_length": int(rng.choice([7, 12])),
        "min_length": int(rng.choice([0, 4])),
        "length_penalty": float(rng.choice([1.0, 0.6])),
        "early_stopping": [False, True, "never"][rng.integers(3)],
        "eos_token_id": [end, *others[1 : 3 - seed % 3]],
        "pad_token_id": model.config.pad_token_id,
        "decoder_start_token_id": model.config.decoder_start_token_id,
    }
    if rng.random() < 0.8:
        generation["forced_eos_token_id"] = end
    if family == "marian":
        generation["bad_words_ids"] = [[model.config.pad_token_id]]
    model.generation_config = transformers.GenerationConfig(**generation)
    shutil.rmtree(folder)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if is_bare:  # those of M2M100 need no list of languages
        forget_languages(folder / "tokenizer_config.json")
        (folder / "added_tokens.json").unlink()
    record(family, model, folder, random_lines(rng))


def classes(family: str) -> tuple[Any, Any, Any]:
    """Returns the classes of model, tokenizer and config."""
    if family == "marian":
        return transformers.MarianMTModel, transformers.MarianTokenizer, transformers.MarianConfig
    tokenizer = transformers.M2M100Tokenizer if family == "m2m100" else transformers.NllbTokenizer
    return transformers.M2M100ForConditionalGeneration, tokenizer, transformers.M2M100Config


def forget_languages(path: pathlib.Path) -> None:
    """Removes the languages from a tokenizer's settings, which need not list them."""
    settings = json.loads(path.read_text())
    by_id = settings["added_tokens_decoder"]
    settings["added_tokens_decoder"] = {
        id_: token for id_, token in by_id.items() if not token["content"].startswith("__")
    }
    listed = settings.pop("extra_special_tokens", [])
    settings["extra_special_tokens"] = [text for text in listed if not text.startswith("__")]
    path.write_text(json.dumps(settings))


def random_lines(rng: Any) -> list[str]:
    """Returns lines of words and of the added tokens, with and without spaces between them."""
    words = [word for line in random_tokenizers.random_lines(0)[:50] for word in line.split()]
    lines = []
    for _ in range(3 * SOURCES):
        parts = [str(part) for part in rng.choice(words, rng.integers(1, 6))]
        for token in rng.choice(ADDED, rng.integers(0, 4)):
            parts.insert(rng.integers(len(parts) + 1), token.content)
        spaces = rng.choice([" ", ""], len(parts), p=[0.8, 0.2])
        line = "".join(part + space for part, space in zip(parts, spaces, strict=True)).strip()
        lines.append(line)
    return list(dict.fromkeys(lines))


def record(family: str, model: Any, folder: pathlib.Path, lines: list[str]) -> None:
    """Writes the translations of those lines that do not depend on rounding."""
    tokenizer = classes(family)[1].from_pretrained(folder)
    languages: tuple[str, str] | None = None
    forced = {}
    if family != "marian":
        languages = ("fr", "de") if family == "m2m100" else ("fra_Latn", "deu_Latn")
        tokenizer.src_lang = languages[0]
        name = f"__{languages[1]}__" if family == "m2m100" else languages[1]
        forced["forced_bos_token_id"] = tokenizer.convert_tokens_to_ids(name)
    found = []
    for dtype in (torch.float32, torch.float64):
        loaded = classes(family)[0].from_pretrained(folder, dtype=dtype).eval()
        texts = []
        for line in lines:
            with torch.no_grad():
                ids = loaded.generate(**tokenizer(line, return_tensors="pt"), **forced)
            text = tokenizer.decode(ids[0], skip_special_tokens=True)
            # Without a list, transformers shows the languages.
            texts.append(re.sub(r"__\w+?__ ?", "", text).strip() if languages else text.strip())
        found.append(texts)
    sure = [(line, a) for line, a, b in zip(lines, *found, strict=True) if a == b][:SOURCES]
    (folder / "records").mkdir()
    contents = {"languages": languages, "texts": dict(sure)}
    text = json.dumps(contents, ensure_ascii=False, indent=0)
    (folder / "records" / "texts.json").write_text(text + "\n")
    shown = len({text for _, text in sure})
    print(folder.name, model.generation_config.to_diff_dict(), len(sure), shown, flush=True)


def main() -> None:
    """Makes the models that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output_dir", required=True, type=pathlib.Path)
    parser.add_argument("--seeds", default=1, type=int, help="models of each family")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for seed in range(options.seeds):
        for family in ("marian", "m2m100", "nllb"):
            make(family, seed, options.output_dir / f"{family}_{seed}")


if __name__ == "__main__":
    main()
