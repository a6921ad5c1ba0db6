"""Training of SentencePiece models, with which every line decodes to itself.

The model does not normalise text, keeps all white space, and spells characters outside the
vocabulary as bytes; see `sentencepiece_model` for its rules. Its file says whether sources are to
be in `source_form`.
"""

import io
import logging
import pathlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence

import sentencepiece

from t2t_lite import files
from t2t_lite.errors import DataError, first_line, quoted
from t2t_lite.text.sentencepiece_model import SOURCE_FORM, UNKNOWN_ID, Model, pieces_of
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID, SPACE

log = logging.getLogger(__name__)

# SentencePiece's rule files: characters, tab, characters; each character as a hexadecimal number.
_ESCAPE_RULES = "2581\t2582 62\n2582\t2582 61\n"
_UNESCAPE_RULES = "2582 62\t2581\n2582 61\t2582\n"

# Characters that make the trainer skip a line: NUL, and U+2585, which it uses internally.
_UNTRAINABLE = {0x0: " ", 0x2585: " "}

# The trainer drops lines of more than 4,192 bytes, and unigram takes time quadratic in the length
# of a line. No piece contains a space except at its start, so splitting before one loses nothing.
_CUT = re.compile(r".{1,1000}(?= |\Z)|.{1,1000}", re.DOTALL)

# A larger corpus is sampled, deterministically, to this many (split) lines, to bound memory.
_MAX_TRAINING_LINES = 10_000_000

_LOG_NOTHING = 3  # errors are raised as exceptions


def train(
    model_type: str,
    path: pathlib.Path,
    lines: Iterable[str],
    vocab_size: int,
    control_symbols: Sequence[str] = (),
    reads_source_form: bool = True,
) -> None:
    """Trains a model and writes it atomically; the same lines give the same bytes.

    If the text has too few distinct pieces, the vocabulary is smaller and a warning is logged. The
    vocabulary contains the 256 bytes, the space, and nearly all characters of the text.

    Args:
        model_type: "bpe" or "unigram".
        path: the model file to write.
        lines: the text.
        vocab_size: number of ids, with pad, EOS and unknown.
        control_symbols: pieces with the ids after these, which no text has.
        reads_source_form: whether the file says that models read sources in `source_form`.

    Raises:
        DataError: `vocab_size` is too small for the bytes and the characters of the text, or a
            control symbol is a piece already.
        Exception: whatever `lines` raises.
    """
    model = trained_model(
        model_type, lines, vocab_size, str(path), control_symbols, reads_source_form
    )
    if (size := len(pieces_of(model))) < vocab_size:
        log.warning("%s: the text yields %d ids, not %d", path, size, vocab_size)
    with files.whole_file(path) as temporary:
        temporary.write_bytes(model)


def trained_model(
    model_type: str,
    lines: Iterable[str],
    vocab_size: int,
    name: str,
    control_symbols: Sequence[str] = (),
    reads_source_form: bool = True,
) -> bytes:
    """Returns what `train` writes; arguments as there, and the name of the file for errors."""
    failures: list[BaseException] = []
    try:
        text = _trainable(lines, failures)
        model = Model.FromString(_train(model_type, text, vocab_size, control_symbols))
    except RuntimeError as error:
        if failures:
            raise failures[0] from None
        if "sentences_.empty()" in str(error):
            raise DataError(f"cannot build {name}: the training text is only line ends") from None
        too_small = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
        if not too_small and control_symbols:
            raise DataError(
                f"cannot build {name}: SentencePiece refuses additional_reserved_tokens "
                f"{quoted(list(control_symbols))} ({first_line(error)}): they must be different, "
                "and none of them <unk>, a byte such as <0x41>, a piece of text, or empty"
            ) from None
        if not too_small:
            raise
        raise DataError(
            f"cannot build {name}: bytes and characters alone take {too_small[1]} ids, "
            f"but approx_vocab_size is {vocab_size}; increase it"
        ) from None
    if reads_source_form:
        model.normalizer_spec.name = SOURCE_FORM
    # The model contains the compiled rules; the names of the rule files differ each time.
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    model.denormalizer_spec.ClearField("normalization_rule_tsv")
    # Models are the same to the byte as those of releases that did not require the space.
    model.trainer_spec.ClearField("required_chars")
    return model.SerializeToString(deterministic=True)


def _trainable(lines: Iterable[str], failures: list[BaseException]) -> Iterator[str]:
    """Yields lines fit for the trainer; notes their error, which the trainer would replace."""
    try:
        for line in lines:
            yield from _CUT.findall(line.translate(_UNTRAINABLE))
    except BaseException as error:
        failures.append(error)
        raise


def _train(
    model_type: str, lines: Iterable[str], vocab_size: int, control_symbols: Sequence[str]
) -> bytes:
    written = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules, inverse_rules = pathlib.Path(folder, "rules"), pathlib.Path(folder, "inverse_rules")
        rules.write_text(_ESCAPE_RULES)
        inverse_rules.write_text(_UNESCAPE_RULES)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=written,
            model_type=model_type,
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            pad_id=PAD_ID,
            eos_id=EOS_ID,
            unk_id=UNKNOWN_ID,
            bos_id=-1,
            control_symbols=list(control_symbols),
            byte_fallback=True,
            required_chars=SPACE,  # too rare to be covered in Chinese; as bytes it stays U+2581
            normalization_rule_tsv=rules,
            denormalization_rule_tsv=inverse_rules,
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            split_digits=True,
            input_sentence_size=_MAX_TRAINING_LINES,
            minloglevel=_LOG_NOTHING,
        )
    return written.getvalue()
