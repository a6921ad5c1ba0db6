"""Options of `t2t-insights`, which are its flags; needs no TensorFlow."""

import dataclasses

from t2t_lite.runs.config import TrainedModelConfig
from t2t_lite.settings import REQUIRED, setting

HTML, SVG, PNG = "html", "svg", "png"
ATTENTIONS = ("encoder", "decoder", "encoder_decoder", "alignment")


@dataclasses.dataclass(frozen=True, kw_only=True)
class InsightsConfig(TrainedModelConfig):
    """One run of `job.run`; empty text means "not given"."""

    text: str = setting(REQUIRED, "Source sentence.", group="Input")
    target: str = setting("", "Target sentence (default: what the model outputs for --text).")
    decode_hparams: str = setting(
        "",
        "Changes to the problem's search settings, when --target is not given: NAME=VALUE,... "
        "(t2t-decoder --help).",
        listed=True,
    )
    output_file: str = setting(
        "", "File to write (default: OUTPUT_DIR/insights.FORMAT).", writes=True, group="Output"
    )
    output_format: str = setting(
        HTML,
        "A page with every layer and head, or a picture of one layer (svg and png need: pip "
        "install '.[plots]').",
        choices=(HTML, SVG, PNG),
    )
    attention: str | None = setting(
        None,
        "Attention to draw in a picture (default: encoder_decoder); alignment: the links between "
        "words that follow from it.",
        choices=ATTENTIONS,
    )
    layer: int | None = setting(
        None, "Layer to draw in a picture, counted from 1 (default: the last).", minimum=1
    )
    heads: str = setting(
        "", "Heads to draw in a picture, counted from 1, such as 1,3 (default: all)."
    )
