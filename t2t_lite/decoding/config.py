"""What a decoding run is told, field by field as `t2t-decoder`'s flags; needs no TensorFlow."""

import dataclasses

STANDARD_INPUT = "-"  # in place of a file's name


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
    """One run of `jobs.run`; an empty name or path means "not given"."""

    output_dir: str = ""  # run folder of t2t-trainer; empty: the folder of checkpoint_path
    # Names of checkpoints (checkpoints/names.py), several for an ensemble, as a tuple or with ","
    # between them; empty: the newest.
    checkpoint_path: str | tuple[str, ...] = ""
    problem: str = ""  # must agree with the run folder; empty: what stands there
    model: str = ""  # must agree with the run folder; empty: what stands there
    hparams_set: str = ""  # must agree with the run folder; empty: what stands there
    hparams: str = ""  # changes to the run's hparams: "name=value,..."
    data_dir: str = ""  # vocabulary and data files; empty: the run folder's vocabulary
    decode_from_file: str = ""  # sentences, one a line; "-": standard input; empty: the dev split
    decode_to_file: str = ""  # where results go; empty: a name made from the inputs'
    decode_reference: str = ""  # right answers, one a line: the score against them is printed
    score_file: str = ""  # targets to score: of decode_from_file, or behind their sources and a tab
    prefix_file: str = ""  # how the output of each line of decode_from_file must begin
    long_input: str = "split"  # what becomes of over-long lines: "split" or "truncate"
    output_format: str = "text"  # "text", or "json": an object for each line
    decode_interactive: bool = False  # read sentences from the terminal
    eval_use_test_set: bool = False  # decode the test split instead of dev
    worker_gpu: int | None = None  # GPUs to use; None: all
    decode_hparams: str = ""  # changes to the problem's search settings: "name=value,..."
