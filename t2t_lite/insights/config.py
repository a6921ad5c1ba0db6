"""What `t2t-insights` is told, field by field as its flags; needs no TensorFlow."""

import dataclasses

HTML, SVG, PNG = "html", "svg", "png"


@dataclasses.dataclass(frozen=True)
class InsightsConfig:
    """One run of `job.run`; an empty name or path means "not given"."""

    text: str  # the source
    target: str = ""  # its target; empty: what the model makes of the text
    output_dir: str = ""  # run folder of t2t-trainer; empty: the folder of checkpoint_path
    checkpoint_path: str = ""  # prefix of a checkpoint; empty: the newest
    decode_hparams: str = ""  # changes to the problem's search settings: "name=value,..."
    output_file: str = ""  # empty: insights.FORMAT in the run folder
    format: str = HTML  # or SVG or PNG, to which alone the following apply
    attention: str | None = None  # encoder, decoder or encoder_decoder, which is the default
    layer: int | None = None  # from 1; None: the last
    heads: str = ""  # numbers from 1, "," between them; empty: all
