"""T2T's iterators over text files, and where they report what they cannot read (`--skip_bad`).

T2T's readers are functions without such an argument, and generators: they read when their results
are asked for. Hence there is one receiver at a time, that of the problem that is generated.
"""

import glob
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from t2t_lite.data.corpora.corpora import aligned
from t2t_lite.errors import DataError, quoted
from t2t_lite.text.bad_input import STRICT, BadInput
from t2t_lite.text.number_encoder import numbers_of_line
from t2t_lite.text.text_encoder import EOS_ID
from t2t_lite.text.text_files import iterate_lines

# No class has a number of more digits; Python refuses to convert thousands of them.
_INTEGER = re.compile(r"[-+]?\d{1,18}")
_LABELLED = re.compile(r"(.*)\tExtra_Label: (-?\d{1,18})")


def txt_line_iterator(txt_path: str) -> Iterator[str]:
    """Yields the stripped lines of a file, without those that `--skip_bad` skips."""
    return filter(receiver().is_usable, _lines(txt_path))


def txt_line_sharded_iterator(txt_pattern: str) -> Iterator[str]:
    """Yields the stripped lines of all files that match a pattern, as `txt_line_iterator`."""
    return filter(receiver().is_usable, _sharded_lines(txt_pattern))


def _lines(path: str) -> Iterator[str]:
    """Yields all stripped lines of a file; those that are skipped contain lone surrogates."""
    bad = receiver()
    return bad.counted(map(str.strip, iterate_lines(path, bad)), path)


def _sharded_lines(pattern: str) -> Iterator[str]:
    return (line for path in sorted(glob.glob(pattern)) for line in _lines(path))


def _pairs(sources: Iterator[str], targets: Iterator[str], names: str) -> Iterator[dict[str, str]]:
    """Yields aligned lines of which neither is skipped."""
    bad = receiver()
    for one, other in aligned(sources, targets, names, bad):
        if bad.is_usable(one, other):
            yield {"inputs": one, "targets": other}


def txt_and_label_iterator(txt_path: str) -> Iterator[list[Any]]:
    r"""Yields text and label of lines such as `text\tExtra_Label: 3`.

    Raises:
        DataError: a line has another form.
    """
    bad = receiver()
    for number, line in enumerate(_lines(txt_path), 1):
        if bad.is_usable(line):
            found = _LABELLED.fullmatch(line)
            if found is None:
                raise DataError(
                    f"{txt_path}, line {number}: expected text<TAB>Extra_Label: NUMBER, got "
                    f"{quoted(line)}"
                )
            yield [found[1], int(found[2])]


def text2text_txt_iterator(source_txt_path: str, target_txt_path: str) -> Iterator[dict[str, str]]:
    """Yields the pairs of two files.

    Raises:
        DataError: they have different numbers of lines; T2T ends with the shorter one.
    """
    names = f"{source_txt_path} and {target_txt_path}"
    return _pairs(_lines(source_txt_path), _lines(target_txt_path), names)


def text2text_txt_sharded_iterator(
    source_txt_pattern: str, target_txt_pattern: str
) -> Iterator[dict[str, str]]:
    """Yields the pairs of files that match two patterns; errors as `text2text_txt_iterator`."""
    names = f"{source_txt_pattern} and {target_txt_pattern}"
    return _pairs(_sharded_lines(source_txt_pattern), _sharded_lines(target_txt_pattern), names)


def text2text_txt_tab_iterator(txt_path: str) -> Iterator[dict[str, str]]:
    """Yields the pairs of lines with a tab; other lines are left out."""
    lines = txt_line_sharded_iterator(txt_path) if "*" in txt_path else txt_line_iterator(txt_path)
    for line in lines:
        source, tab, target = line.partition("\t")
        if tab:
            yield {"inputs": source.strip(), "targets": target.strip()}


def text2self_txt_iterator(txt_path: str) -> Iterator[dict[str, str]]:
    """Yields the lines of a file as targets."""
    return ({"targets": line} for line in txt_line_iterator(txt_path))


def text2class_txt_iterator(
    source_txt_path: str, label_txt_path: str, class_strs: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yields texts and labels: numbers, or one of `class_strs`.

    Raises:
        DataError: a label is something else, or the files have different numbers of lines.
    """
    bad = receiver()
    known = {label: number for number, label in enumerate(class_strs or [])}
    names = f"{source_txt_path} and {label_txt_path}"
    pairs = aligned(_lines(source_txt_path), _lines(label_txt_path), names, bad)
    for line, (text, label) in enumerate(pairs, 1):
        if bad.is_usable(text, label):
            number = known.get(label) if class_strs else _number(label)
            if number is None:
                expected = f"one of {quoted(list(known))}" if class_strs else "a number"
                raise DataError(
                    f"{label_txt_path}, line {line}: expected {expected}, got {quoted(label)}"
                )
            yield {"inputs": text, "label": number}


def _number(label: str) -> int | None:
    return int(label) if _INTEGER.fullmatch(label) else None


def text2real_txt_iterator(source_txt_path: str, target_txt_path: str) -> Iterator[dict[str, Any]]:
    """Yields texts and lists of numbers, which white space separates.

    Raises:
        DataError: a line has something else, or the files have different numbers of lines.
    """
    bad = receiver()
    names = f"{source_txt_path} and {target_txt_path}"
    pairs = aligned(_lines(source_txt_path), _lines(target_txt_path), names, bad)
    for line, (text, numbers) in enumerate(pairs, 1):
        if bad.is_usable(text, numbers):
            yield {"inputs": text, "targets": numbers_of_line(numbers, target_txt_path, line)}


def text2text_generate_encoded(
    sample_generator: Iterable[Mapping[str, Any]],
    vocab: Any,
    targets_vocab: Any = None,
    has_inputs: bool = True,
    inputs_prefix: str = "",
    targets_prefix: str = "",
) -> Iterator[dict[str, Any]]:
    """Yields samples with the ids of their texts, EOS at the end."""
    for sample in sample_generator:
        encoded = dict(sample)
        if has_inputs:
            encoded["inputs"] = [*vocab.encode(inputs_prefix + sample["inputs"]), EOS_ID]
        text = targets_prefix + sample["targets"]
        encoded["targets"] = [*(targets_vocab or vocab).encode(text), EOS_ID]
        yield encoded


_receiver = STRICT


def receive(receiver: BadInput) -> None:
    """Chooses what receives unreadable lines from here on."""
    global _receiver
    _receiver = receiver


def receiver() -> BadInput:
    """Returns what receives unreadable lines."""
    return _receiver
