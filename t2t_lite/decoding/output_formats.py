"""Formats outputs as lines of text or of JSON."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from t2t_lite.decoding.config import ALIGNMENTS, JSON, TEXT
from t2t_lite.decoding.hypotheses import Hypothesis, Source
from t2t_lite.decoding.stages.alignment import Alignment, subword_links
from t2t_lite.decoding.text_codec import SEPARATORS
from t2t_lite.search.decode_hparams import DecodeHParams

# Formats a source and its hypotheses, best first, as one line.
Formatter = Callable[[Source, Sequence[Hypothesis]], str]

_DIGITS = 6  # decimals in JSON; float32 has no more digits


def output_formatter(output_format: str, hparams: DecodeHParams) -> Formatter:
    """Returns a formatter of outputs in a format; of all hypotheses with return_beams."""

    def format_line(source: Source, hypotheses: Sequence[Hypothesis]) -> str:
        shown = hypotheses if hparams.return_beams else hypotheses[:1]
        if output_format == JSON:
            return _json(source, shown)
        if output_format != TEXT:
            return "\t".join(_links(beam, output_format) for beam in shown)
        return "\t".join(_columns(beam, hparams) for beam in shown)

    return format_line


def score_formatter(output_format: str) -> Formatter:
    """Returns a formatter of scores: T2T's six decimals, JSON with the target, or its links."""

    def format_line(source: Source, targets: Sequence[Hypothesis]) -> str:
        if output_format == JSON:
            return _json(source, targets)
        if output_format != TEXT:
            return "".join(_links(target, output_format) for target in targets)
        return "".join(f"{target.score:.6f}" for target in targets)

    return format_line


def written_score(line: str) -> float:
    """Returns the score in a line of `score_formatter`."""
    if line.startswith("{"):
        return float(json.loads(line)["hypotheses"][0]["score"])
    return float(line)


def _columns(hypothesis: Hypothesis, hparams: DecodeHParams) -> str:
    text = hypothesis.output.text
    if hparams.return_beams or hparams.write_beam_scores:
        text = text.translate(SEPARATORS)  # a tag that was put back may have some
    return f"{text}\t{hypothesis.score:.2f}" if hparams.write_beam_scores else text


def fields_of(source: Source, hypotheses: Sequence[Hypothesis]) -> dict[str, Any]:
    """Returns the JSON object of a source and its hypotheses."""
    fields: dict[str, Any] = {"source": source.shown}
    if hypotheses:
        fields |= hypotheses[0].line_fields
    return fields | {"hypotheses": [_entry(hypothesis) for hypothesis in hypotheses]}


def _json(source: Source, hypotheses: Sequence[Hypothesis]) -> str:
    return json.dumps(fields_of(source, hypotheses), ensure_ascii=False)


def _links(hypothesis: Hypothesis, output_format: str) -> str:
    """Returns the links of a hypothesis; "" if its attention is not known."""
    if output_format == ALIGNMENTS:
        return hypothesis.fields.get("alignment") or ""
    return subword_links(hypothesis)


def _entry(hypothesis: Hypothesis) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "text": hypothesis.output.text,
        "score": round(hypothesis.score, _DIGITS),
    }
    if details := hypothesis.details:
        attention = details.attention
        entry |= {
            "tokens": details.tokens,
            "log_probs": _rounded(details.log_probs),
            "source_tokens": details.source_tokens,
            "attention": None if attention is None else _rounded(attention),
            **Alignment.tells,
        }
    return {**entry, **hypothesis.fields}


def _rounded(values: np.ndarray) -> list[Any]:
    return values.astype(np.float64).round(_DIGITS).tolist()
