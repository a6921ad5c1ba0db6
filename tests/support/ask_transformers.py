"""Answers with transformers what folders of models compute; run by a Python that has it.

    TRANSFORMERS_PYTHON ask_transformers.py QUESTIONS.json ...

Each file of questions names a `folder`, `lines` to encode, `pairs` of source and target ids, EOS
included, and how many of the sources are decoded, up to a `limit`. Beside it appear
QUESTIONS.answers.json, with the tokenizer's ids of each line, what it decodes of them, and the
greedy outputs, and QUESTIONS.logits.npy, with the logits of the targets [N, T, V].
"""

import json
import pathlib
import sys
from collections.abc import Sequence

import numpy as np
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

_BATCH = 50  # pairs


def answer(questions: dict) -> tuple[dict, np.ndarray]:
    """Returns the answers, and the logits."""
    tokenizer = AutoTokenizer.from_pretrained(questions["folder"])
    model = AutoModelForSeq2SeqLM.from_pretrained(questions["folder"]).eval()
    ids = [tokenizer(line)["input_ids"] for line in questions["lines"]]
    texts = [tokenizer.decode(row, skip_special_tokens=True) for row in ids]
    settings = model.generation_config
    start, padding = settings.decoder_start_token_id, settings.pad_token_id
    limits = {"max_new_tokens": questions["limit"], "min_new_tokens": 0}
    pairs, count = questions["pairs"], questions["greedy"]
    longest = max((len(target) for _, target in pairs), default=0)
    logits, greedy = [], []
    with torch.no_grad():
        for first in range(0, len(pairs), _BATCH):
            sources, targets = zip(*pairs[first : first + _BATCH], strict=True)
            inputs = padded(sources, padding)
            known = {"input_ids": inputs, "attention_mask": padded(sources, padding, is_mask=True)}
            before = padded([[start, *target[:-1]] for target in targets], padding, longest)
            logits.append(model(**known, decoder_input_ids=before).logits.numpy())
            if first < count:
                some = {name: values[: count - first] for name, values in known.items()}
                found = model.generate(**some, num_beams=1, **limits)
                greedy += found[:, 1:].tolist()
    ends = settings.eos_token_id if isinstance(settings.eos_token_id, list) else None
    greedy = [up_to(row, ends or [settings.eos_token_id]) for row in greedy]
    found = np.concatenate(logits) if logits else np.zeros((0, 0, 0))
    return {"ids": ids, "texts": texts, "greedy": greedy}, found


def padded(
    rows: Sequence[Sequence[int]], padding: int, longest: int = 0, *, is_mask: bool = False
) -> torch.Tensor:
    """Returns rows of ids as [N, L], or which of them are not padding."""
    longest = max(longest, *map(len, rows))
    if is_mask:
        return torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return torch.tensor([[*row, *[padding] * (longest - len(row))] for row in rows])


def up_to(row: list[int], ends: list[int]) -> list[int]:
    """Returns an output as far as its end, included."""
    return row[: next((i for i, id_ in enumerate(row) if id_ in ends), len(row)) + 1]


def main() -> None:
    torch.set_num_threads(1)  # the models are tiny
    for name in sys.argv[1:]:
        path = pathlib.Path(name)
        answers, logits = answer(json.loads(path.read_text(encoding="utf-8")))
        path.with_suffix(".answers.json").write_text(json.dumps(answers), encoding="utf-8")
        np.save(path.with_suffix(".logits.npy"), logits)


if __name__ == "__main__":
    main()
