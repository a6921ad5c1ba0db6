"""Compares what an imported model writes with what it is known to write elsewhere."""

import dataclasses
import pathlib
from collections.abc import Sequence

from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.translator import Translator
from t2t_lite.errors import DataError, UserError, quoted
from t2t_lite.interop.imports import IS_8_BITS
from t2t_lite.metrics.bleu import likeness_bleu
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.text.text_files import read_lines

_BLOCK = 3  # lines of source, reference and translation, before an empty one
_MOST_SHOWN = 3  # differences
LEAST_EQUAL = 98  # % of the outputs; rounding may exchange hypotheses that score almost alike
LEAST_BLEU = 80  # or else, for a model in 8 bits: here, activations are not rounded


@dataclasses.dataclass(frozen=True)
class Verification:
    """What a comparison of outputs has found.

    Attributes:
        equal: how many outputs are as expected.
        count: how many outputs there are.
        report: lines for users, with some that are not.
        bleu: of the outputs against the expected ones, from 0 to 100.
        is_8_bits: whether an 8-bit model has written the expected ones.
    """

    equal: int
    count: int
    report: str
    bleu: float = 100.0
    is_8_bits: bool = False

    def require_equal(self) -> None:
        """Raises `UserError` if too few outputs are as expected.

        At least `LEAST_EQUAL` % must be; for an 8-bit model, it is enough that BLEU is at least
        `LEAST_BLEU`.
        """
        if 100 * self.equal >= LEAST_EQUAL * self.count:
            return
        if not self.is_8_bits:
            raise UserError(
                f"only {self.equal} of {self.count} outputs are as expected, fewer than "
                f"{LEAST_EQUAL} %: check that the model, the languages and the search are those of "
                "the expected outputs, and that the same release of its toolkit made them"
            )
        if self.bleu < LEAST_BLEU:
            raise UserError(
                f"BLEU against the expected outputs is {self.bleu:.2f}, below {LEAST_BLEU}, "
                "which an 8-bit model reaches here: check that the model, the search and the "
                "short list are those of the expected outputs"
            )


def verify(output_dir: str, pairs: Sequence[tuple[str, str]]) -> Verification:
    """Decodes sources with a run's own search, and compares the outputs.

    Args:
        output_dir: the run folder.
        pairs: sources and expected outputs.

    Raises:
        UserError: the run cannot be opened.
    """
    sources, expected = zip(*pairs, strict=True)
    run = RunFolder.open(output_dir)
    outputs = Translator(Decoder.from_run(run))(list(sources))
    both = list(zip(outputs, expected, strict=True))
    others = [number for number, (ours, theirs) in enumerate(both, 1) if ours != theirs]
    equal, count = len(both) - len(others), len(both)
    bleu = likeness_bleu(outputs, list(expected))
    lines = [
        f"{equal} of {count} outputs are as expected ({100 * equal / count:.1f} %)",
        f"BLEU against the expected ones: {bleu.score:.2f} ({bleu.signature})",
    ]
    for number in others[:_MOST_SHOWN]:
        ours, theirs = both[number - 1]
        lines += [f"{number} ours:     {ours}", f"{number} expected: {theirs}"]
    is_8_bits = bool(run.settings.others.get(IS_8_BITS))
    return Verification(equal, count, "\n".join(lines), bleu.score, is_8_bits)


def read_pairs(path: pathlib.Path) -> Sequence[tuple[str, str]]:
    """Returns sources and expected outputs.

    Args:
        path: lines of source, tab and output; or OPUS-MT's test sets as published with its
            models: lines of source, reference and output, then an empty one.

    Raises:
        DataError: the file is of neither form.
    """
    lines = [line.strip(" \r\n") for line in read_lines(path)]
    size = len(lines)
    while size and not lines[size - 1]:
        size -= 1
    if not size:
        raise DataError(f"{path} is empty: expected sources and outputs")
    are_blocks = size > _BLOCK and not lines[_BLOCK]  # whose text may have tabs
    if not are_blocks and any("\t" in line for line in lines):
        return [_pair(path, number, line) for number, line in enumerate(lines[:size], 1)]
    pairs = []
    for start in range(0, size, _BLOCK + 1):
        block = lines[start : start + _BLOCK]
        end = lines[start + _BLOCK : start + _BLOCK + 1]
        if len(block) < _BLOCK or any(end):
            raise DataError(
                f"{path}, line {start + 1}: expected a source, a tab and an output; or blocks of "
                "a source, a reference and an output in lines of their own, then an empty line"
            )
        pairs.append((block[0], block[-1]))
    return pairs


def _pair(path: pathlib.Path, number: int, line: str) -> tuple[str, str]:
    fields = [field.strip() for field in line.split("\t")]
    if len(fields) != 2:
        raise DataError(
            f"{path}, line {number}: expected a source, a tab and an output, got {quoted(line)}"
        )
    return fields[0], fields[1]
