"""A short list: which ids an output may consist of, by the ids of its source.

A search computes the probabilities of these alone, as in Devlin (EMNLP 2017, section 2.3) and
Marian. A file has a line of JSON that says for which vocabularies it is; then, after a tab, the ids
that are always candidates; then a line for each source id: the id, a tab, and the ids that may
translate it, likeliest first.
"""

import hashlib
import itertools
import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import numpy as np

from t2t_lite import files
from t2t_lite.errors import DataError, UserError, quoted
from t2t_lite.json_files import parse_object
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID, RESERVED_TOKENS, TextEncoder
from t2t_lite.text.text_files import iterate_lines

VMAP = "vmap.txt"  # CTranslate2's name of a file of `lines` beside a model

_FORMAT = 1
_ID = re.compile(r"[0-9]{1,9}")  # Python reads no number of thousands of digits
_REMEDY = "make it again with t2t-shortlist"
_MOST = 10**4  # translations of a source id
_COUNTED = 1000  # pairs of which statistics are made


class Shortlist:
    """A short list.

    Args:
        always: the ids that are candidates for every source.
        translations: for each source id, the ids that are candidates if a source has it; [R, N],
            0 after them.
        targets_vocab_size: V.
    """

    def __init__(
        self, always: Sequence[int], translations: np.ndarray, targets_vocab_size: int
    ) -> None:
        self._always = np.array(sorted({EOS_ID, *always} - {PAD_ID}))
        self._translations = translations
        self._size = targets_vocab_size

    def candidates(
        self, sources: np.ndarray, prefixes: np.ndarray, never: Sequence[int] = ()
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the candidates of a batch.

        Args:
            sources: [B, S] ids, 0 at padding.
            prefixes: [B, P], ids with which each output must begin; 0 after them.
            never: the ids that are no candidates, whatever the list says.

        Returns:
            The ids [U], in ascending order, that are candidates of any source or in a prefix;
            whether each is a candidate of each source [B, U], whatever its prefix.
        """
        permitted = np.zeros((len(sources), self._size), np.bool_)
        permitted[:, self._always] = True
        for i, source in enumerate(sources):
            known = source[(source != PAD_ID) & (source < len(self._translations))]
            permitted[i, self._translations[known]] = True
        permitted[:, [PAD_ID, *never]] = False
        used = np.any(permitted, axis=0)
        used[[PAD_ID, EOS_ID]] = True
        used[prefixes] = True
        vocabulary = np.flatnonzero(used)
        return vocabulary, permitted[:, vocabulary]

    def lists(self) -> tuple[list[int], list[list[int]]]:
        """Returns the candidates of every source, and for each source id those that it adds."""
        added = [sorted({*ids[ids != PAD_ID].tolist()}) for ids in self._translations]
        return self._always.tolist(), added

    def coverage(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
        """Returns the share of target ids that are candidates, and the mean number of candidates.

        Args:
            pairs: the ids of sources and targets, of which some, at equal distances, are counted.
        """
        counted = pairs[:: -(-len(pairs) // _COUNTED)]
        found = candidates = ids = 0
        for source, target in counted:
            vocabulary, _ = self.candidates(source[None], np.zeros([1, 0], np.int32))
            found += int(np.isin(target, vocabulary).sum())
            candidates += len(vocabulary)
            ids += len(target)
        return found / max(ids, 1), candidates / len(counted)

    def lines(
        self, sources: Sequence[str] | None = None, targets: Sequence[str] | None = None
    ) -> Iterator[str]:
        """Yields the lines of a file, but for the first; they are a `vmap` of CTranslate2, too.

        Args:
            sources: names of the source ids; None: the ids as text.
            targets: names of the target ids, likewise.
        """
        source_names = sources or [*map(str, range(len(self._translations)))]
        target_names = targets or [*map(str, range(self._size))]
        yield f"\t{' '.join(target_names[id_] for id_ in self._always)}"
        for name, ids in zip(source_names, self._translations, strict=True):
            if ids.any():
                yield f"{name}\t{' '.join(target_names[id_] for id_ in ids[ids != PAD_ID])}"

    def write(self, path: str, encoders: Mapping[str, TextEncoder]) -> None:
        """Writes a file, whole or not at all.

        Args:
            path: the file.
            encoders: the encoders of "inputs" and "targets".
        """
        header = json.dumps({"shortlist": _FORMAT, "vocabularies": _digest(encoders)})
        text = "".join(f"{line}\n" for line in itertools.chain([header], self.lines()))
        files.write_text(path, text)

    @classmethod
    def read(cls, path: str, encoders: Mapping[str, TextEncoder]) -> Self:
        """Reads a file.

        Raises:
            UserError: there is no such file, or it is for other vocabularies.
            DataError: it is not a short list.
        """
        if not pathlib.Path(path).is_file():
            raise UserError(f"short list {path} does not exist: {_REMEDY}")
        lines = iterate_lines(path)
        _check_header(path, next(lines, ""), encoders)
        size, sources = encoders["targets"].vocab_size, encoders["inputs"].vocab_size
        always: list[int] = []
        found: dict[int, list[int]] = {}
        for number, line in enumerate(lines, 2):
            key, tab, values = line.partition("\t")
            where = f"{path}, line {number}"
            if not tab:
                raise DataError(f"{where}: expected ids after a tab, got {quoted(line)}; {_REMEDY}")
            ids = [_id(text, size, where) for text in values.split()]
            if key:
                found[_id(key, sources, where)] = ids[:_MOST]
            else:
                always = ids
        longest = max(map(len, found.values()), default=0)
        translations = np.zeros([sources, longest], np.int32)
        for source, ids in found.items():
            translations[source, : len(ids)] = ids
        return cls(always, translations, size)


def _check_header(path: str, line: str, encoders: Mapping[str, TextEncoder]) -> None:
    try:
        header = parse_object(line.encode())
    except ValueError:
        header = {}
    if header.get("shortlist") != _FORMAT:
        raise DataError(f"{path}, line 1: this is not a short list of t2t-shortlist; {_REMEDY}")
    if header.get("vocabularies") != _digest(encoders):
        raise UserError(f"short list {path} was made for other vocabularies: {_REMEDY}")


def _id(text: str, size: int, where: str) -> int:
    if not (_ID.fullmatch(text) and int(text) < size):
        raise DataError(f"{where}: expected an id below {size}, got {quoted(text)}; {_REMEDY}")
    return int(text)


def _digest(encoders: Mapping[str, TextEncoder]) -> str:
    """Returns a digest of what the ids of both sides stand for."""
    digest = hashlib.sha256()
    for side in ("inputs", "targets"):
        for id_ in range(len(RESERVED_TOKENS), encoders[side].vocab_size):
            # A byte that is not a whole character is a lone surrogate.
            digest.update(encoders[side].symbol(id_).encode(errors="surrogatepass") + b"\0")
    return digest.hexdigest()
