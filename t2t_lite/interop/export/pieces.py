"""How other programs call the ids of a model: by the pieces of text that they stand for."""

from collections.abc import Mapping, Sequence

from t2t_lite.decoding.ctranslate2_model import Tokens
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.language_tokens import LanguageTokens
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.text_encoder import TextEncoder

_WithPieces = SentencePieceEncoder | ImportedEncoder


def tokens_of(encoders: Mapping[str, TextEncoder]) -> Tokens | None:
    """Returns the pieces of sources and targets by id; None: only we know how text is split."""
    inputs, targets = encoders["inputs"], encoders["targets"]
    if any(isinstance(side, ImportedEncoder) and not side.is_whole for side in (inputs, targets)):
        return None
    if isinstance(inputs, _WithPieces) and isinstance(targets, _WithPieces):
        return Tokens(inputs.tokens, targets.tokens, inputs.tokens[inputs.unknown_id])
    return None


def sentencepiece_files(run: RunFolder) -> tuple[str, str]:
    """Returns the names of the files that split sources and targets into pieces."""
    names = [name for name in run.problem.vocab_files() if not name.endswith(".json")]
    return names[0], names[-1]


def language_tokens(encoder: TextEncoder) -> list[str]:
    """Returns the tokens of `first_ids`."""
    return [encoder.symbol(id_) for id_ in first_ids(encoder)]


def first_ids(encoder: TextEncoder) -> Sequence[int]:
    """Returns the ids of languages with which texts begin; none if they do not.

    If the encoder has no language yet, they are those of the first.
    """
    if not isinstance(encoder, LanguageTokens) or not encoder.languages:
        return ()
    return encoder.starts[encoder.language or min(encoder.starts)]
