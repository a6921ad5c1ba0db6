"""A trained Transformer as a folder for CTranslate2 (https://github.com/OpenNMT/CTranslate2).

The folder holds the weights, the vocabulary, the SentencePiece model, and a README.md with usage.
"""

import logging
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from t2t_lite import files
from t2t_lite.export.ctranslate2_model import POSITIONS, convert
from t2t_lite.models.finite_weights import require_finite_weights
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.text_encoder import TextEncoder

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

log = logging.getLogger(__name__)


class Converted(NamedTuple):
    """A checkpoint in CTranslate2's terms."""

    spec: "TransformerSpec"
    step: int
    has_pieces: bool  # whether its tokens are pieces of text, rather than ids


def export(
    run: run_folder.RunFolder, checkpoint: str | None, export_dir: str, quantization: str
) -> None:
    """Exports the model of a run folder, whole or not at all.

    Args:
        run: an opened run folder.
        checkpoint: prefix of a checkpoint; None: the newest.
        export_dir: the folder to write; must be missing or empty.
        quantization: how weights are stored, one of `ctranslate2_model.QUANTIZATIONS`.
    """
    with files.whole_folder(export_dir) as folder:
        converted = load_converted(run, checkpoint, quantization)
        converted.spec.save(str(folder))
        for name in run.problem.vocab_files():
            shutil.copyfile(run.folder / name, folder / name)
        readme = _readme(run, converted.step, quantization, converted.has_pieces)
        (folder / "README.md").write_text(readme, encoding="utf-8")
    log.info("wrote %s", export_dir)


def load_converted(
    run: run_folder.RunFolder, checkpoint: str | None, quantization: str
) -> Converted:
    """Converts a checkpoint; arguments as of `export`."""
    model, step, checkpoint = run.load_model(checkpoint)
    require_finite_weights(model, checkpoint)
    encoders = run.encoders
    sources, targets = (_tokens(encoders[side]) for side in ("inputs", "targets"))
    tokens = (sources, targets) if sources and targets else None
    return Converted(convert(model, tokens, quantization), step, tokens is not None)


def _tokens(encoder: TextEncoder) -> Sequence[str] | None:
    """Returns the pieces of a SentencePiece model; None: only we know the vocabulary's rules."""
    return encoder.tokens if isinstance(encoder, SentencePieceEncoder) else None


_README = """\
# {problem}, for CTranslate2

Written by t2t-exporter: model {model}, hparams set {hparams_set}, after {step} updates, weights in
{quantization}. To use it in this folder, after `pip install {packages}`:

{example}
`translate_batch` takes many sentences at a time. An output ends after 256 subwords; set
`max_decoding_length` to change this. In t2t-decoder it may be {extra_length} subwords longer than
its source. Neither can be longer than {positions} subwords. `Translator(".", compute_type="int8")`
computes in 8 bits, however the weights are stored.

## The same outputs as t2t-decoder's

With `min_decoding_length=0`, greedy search (`beam_size=1`) finds the same outputs as t2t-decoder
with `beam_size=1`, and beam search with `length_penalty=0` the same as with `alpha=0`, except for
rounding. With `--decode_hparams=length_penalty=average,alpha=X` t2t-decoder scores outputs as
`length_penalty=X` does here. In all cases t2t-decoder searches a little further: CTranslate2 lets
an output end only if that is among its `beam_size` best steps, and stops once `beam_size` outputs
have ended; t2t-decoder considers twice as many steps, and continues until no better output is
possible.

T2T's own penalty differs: t2t-decoder divides the log-probability of an output of n subwords,
EOS counted, by ((5 + n) / 6)^alpha, CTranslate2 by n^length_penalty. For outputs of about n
subwords they rank alike if length_penalty = alpha n / (5 + n). For the default of this problem,
alpha={alpha:g}:

| n | length_penalty |
|---:|---:|
{penalties}
**`{nearest}` is closest** for sentences of usual length.
"""

_USE_PIECES = """\
    import ctranslate2, sentencepiece
    source, target = map(sentencepiece.SentencePieceProcessor, ["{source}", "{target}"])
    pieces = source.encode("A sentence.", out_type=str)
    found = ctranslate2.Translator(".").translate_batch([pieces], {search})
    print(target.decode(found[0].hypotheses[0]))
"""

# For vocabularies with no tokeniser except ours. CTranslate2's tokens are the ids.
_USE_IDS = """\
    import ctranslate2, t2t_lite.registry
    text = t2t_lite.registry.problem("{problem}").get_feature_encoders(".")
    ids = [str(i) for i in text["inputs"].encode("A sentence.")]
    found = ctranslate2.Translator(".").translate_batch([ids], {search})
    print(text["targets"].decode([int(i) for i in found[0].hypotheses[0]]))
"""
_USUAL_LENGTH = 25  # subwords
_LENGTHS = (10, _USUAL_LENGTH, 50, 100)


def _readme(run: run_folder.RunFolder, step: int, quantization: str, uses_pieces: bool) -> str:
    search = DecodeHParams.of(run)
    penalties = {n: search.alpha * n / (5 + n) for n in _LENGTHS}
    nearest = f"length_penalty={penalties[_USUAL_LENGTH]:.2f}"
    example = _USE_PIECES if uses_pieces else _USE_IDS
    return _README.format(
        problem=run.problem.name,
        model=run.model_name,
        hparams_set=run.hparams_set,
        step=step,
        quantization=quantization,
        packages="ctranslate2 sentencepiece" if uses_pieces else "'t2t_lite[ct2]'",
        example=example.format(
            problem=run.problem.name,
            source="".join(run.problem.vocab_files()[:1]),
            target="".join(run.problem.vocab_files()[-1:]),
            search=f"beam_size={search.beam_size}, {nearest}",
        ),
        extra_length=search.extra_length,
        positions=POSITIONS,
        alpha=search.alpha,
        penalties="".join(f"| {n} | {value:.2f} |\n" for n, value in penalties.items()),
        nearest=nearest,
    )
