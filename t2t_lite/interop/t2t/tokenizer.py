"""T2T's invertible tokenizer."""

import collections
import glob
import itertools
import sys

from t2t_lite.text.text_files import decoded_lines, open_file, raw_lines
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
    left = corpus_max_lines or sys.maxsize
    for path in sorted(glob.glob(text_filepattern)):
        raw = [*itertools.islice(raw_lines(open_file(path), path), left)]
        left -= len(raw)
        lines = [*decoded_lines(raw, path)]
        end = "\n" if raw and raw[-1].endswith(b"\n") else ""
        for text in map(str.strip, lines) if split_on_newlines else ["\n".join(lines) + end]:
            counts.update(encode(text))
    return counts
