"""Confidence: how good each output is, by a quality model (`--quality_run`)."""

import json
import logging
import types

from t2t_lite.decoding.hypotheses import Hypothesis, Source
from t2t_lite.decoding.stages.stage import Stage

log = logging.getLogger(__name__)


class Confidence(Stage):
    """Tells how good each output is, wherever the decoder has a quality model."""

    tells = types.MappingProxyType({"confidence": None})

    def after(self, source: Source, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """Returns hypotheses with their confidence."""
        quality = self.codec.quality
        if quality is None:
            return hypotheses
        found = quality.confidences(source.text, [h.output.text for h in hypotheses])
        if None in found:
            log.warning(
                "text %d is not given a confidence: with its output it has more than %d subwords, "
                "which the quality model has not learned (max_length)",
                source.number,
                quality.longest,
            )
        return [h.telling(confidence=own) for h, own in zip(hypotheses, found, strict=True)]


def least_confidence(line: str) -> float:
    """Returns the confidence of the first output in a line of JSON; of several blocks, the least.

    It is 1 where the model had nothing to translate, as in a text of placeholders alone, and 0
    where the text is too long for the quality model.
    """
    hypotheses = json.loads(line)["hypotheses"]
    if not hypotheses:
        return 0.0
    told = hypotheses[0].get("confidence", 1.0)
    return min((one or 0.0 for one in (told if isinstance(told, list) else [told])), default=1.0)
