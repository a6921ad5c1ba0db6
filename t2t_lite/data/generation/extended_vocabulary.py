"""`--extend_vocab`: the vocabulary of a problem is another one, and pieces of its own text."""

import itertools
import logging
import pathlib

from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import DataError, UsageError
from t2t_lite.text.text_encoder import VocabType, require_characters

log = logging.getLogger(__name__)

_TYPES = (VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM)


def vocabulary_to_extend(problem: Text2TextProblem, options: DatagenOptions) -> pathlib.Path | None:
    """Returns the file that `--extend_vocab` names; None without the flag.

    Raises:
        UsageError: the problem's vocabulary cannot be an extension of it.
    """
    if not options.extend_vocab:
        return None
    problem = _owner(problem)
    if (other := problem.use_vocab_from_other_problem) is not None:
        raise _refused(f"{problem.name} has the vocabulary of {other.name}: extend that")
    if problem.vocab_type not in _TYPES or len(problem.vocab_files()) != 1:
        raise _refused(
            f"only one vocabulary of type {' or '.join(_TYPES)} can be extended; that of "
            f"{problem.name} is {', '.join(problem.vocab_files()) or problem.vocab_type}"
        )
    path = _named(pathlib.Path(options.extend_vocab))
    from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder

    if (kind := SentencePieceEncoder(path).model_type) != problem.vocab_type:
        raise _refused(
            f"{path} has the type {kind or 'of words or characters'}, but vocab_type of "
            f"{problem.name} is {problem.vocab_type}: they must be the same"
        )
    return path


def extend_vocabulary(
    problem: Text2TextProblem, data_dir: str, tmp_dir: str, options: DatagenOptions
) -> None:
    """Writes the vocabulary of a problem, if it is missing, as `--extend_vocab` asks for.

    Raises:
        UsageError: as in `vocabulary_to_extend`.
        DataError: the vocabulary to extend is damaged, or there is no text.
    """
    source, bad_input = vocabulary_to_extend(problem, options), problem.bad_input
    problem = _owner(problem)
    problem.bad_input = bad_input
    path = pathlib.Path(data_dir) / problem.vocab_filename
    if source is None or path.is_file():
        return
    from t2t_lite.text import vocabulary_extension

    lines = (
        require_characters(line, "the training text")
        for line in problem.generate_text_for_vocab(data_dir, tmp_dir)
        if line
    )
    first = next(lines, None)
    if first is None:
        raise DataError(f"cannot build {path}: the training text is empty")
    log.info("building the vocabulary %s from %s", path, source)
    text = itertools.chain([first], lines)
    symbols = problem.additional_reserved_tokens
    vocabulary_extension.extend(path, source, text, problem.approx_vocab_size, symbols)


def _owner(problem: Text2TextProblem) -> Text2TextProblem:
    """Returns the problem that the vocabulary is built for: the mixture of a member."""
    other = problem.use_vocab_from_other_problem
    if other is not None and other.base_name == problem.generated_by:
        return other
    return problem


def _named(path: pathlib.Path) -> pathlib.Path:
    """Returns a file, or the only SentencePiece vocabulary in a folder."""
    if not path.is_dir():
        return path
    found = sorted(path.glob("vocab.*.model"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise _refused(f"{path} has no single SentencePiece vocabulary ({names}): name a file")
    return found[0]


def _refused(reason: str) -> UsageError:
    return UsageError(f"--extend_vocab: {reason}")
