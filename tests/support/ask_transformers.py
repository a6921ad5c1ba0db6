"""Answers with transformers what a folder of a model computes; run by a Python that has it.

    TRANSFORMERS_PYTHON ask_transformers.py --folder=MODEL --questions=FILE.json --answers=FILE.json

The questions have `lines` to encode, `pairs` of source and target ids, EOS included, and how many
of the sources are decoded, up to a `limit`. The answers are the tokenizer's ids of each line, what
it decodes of them, the logits of each target, and the greedy outputs.
"""

import argparse
import json
import pathlib

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer


def answer(folder: str, questions: dict) -> dict:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    ids = [tokenizer(line)["input_ids"] for line in questions["lines"]]
    texts = [tokenizer.decode(row, skip_special_tokens=True) for row in ids]
    logits, greedy = [], []
    start = model.generation_config.decoder_start_token_id
    with torch.no_grad():
        for number, (source, target) in enumerate(questions["pairs"]):
            inputs = torch.tensor([source])
            found = model(input_ids=inputs, decoder_input_ids=torch.tensor([[start, *target[:-1]]]))
            logits.append(found.logits[0].tolist())
            if number >= questions["greedy"]:
                continue
            limit = {"max_new_tokens": questions["limit"], "min_new_tokens": 0}
            output = model.generate(inputs, num_beams=1, **limit)[0].tolist()
            greedy.append(output[1:])
    return {"ids": ids, "texts": texts, "logits": logits, "greedy": greedy}


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("folder", "questions", "answers"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    questions = json.loads(pathlib.Path(args.questions).read_text(encoding="utf-8"))
    answers = answer(args.folder, questions)
    pathlib.Path(args.answers).write_text(json.dumps(answers), encoding="utf-8")


if __name__ == "__main__":
    main()
