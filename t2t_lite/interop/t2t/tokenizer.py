"""T2T's invertible tokenizer."""

import collections
import glob

from t2t_lite.text.text_files import iterate_lines
from t2t_lite.text.tokenizer import decode, encode

__all__ = ["corpus_token_counts", "decode", "encode"]


def corpus_token_counts(
    text_filepattern: str, corpus_max_lines: int, split_on_newlines: bool = True
) -> collections.Counter[str]:
    """Counts the tokens of files.

    Args:
        text_filepattern: a pattern of paths.
        corpus_max_lines: number of lines to read; 0: all.
        split_on_newlines: whether lines are stripped and tokenised one by one; else each file is
            one text.
    """
    counts: collections.Counter[str] = collections.Counter()
    left = corpus_max_lines or float("inf")
    for path in sorted(glob.glob(text_filepattern)):
        lines = []
        for line in iterate_lines(path):
            if left <= 0:
                break
            left -= 1
            lines.append(line)
        texts = [line.strip() for line in lines] if split_on_newlines else ["\n".join(lines)]
        for text in texts:
            counts.update(encode(text))
    return counts
