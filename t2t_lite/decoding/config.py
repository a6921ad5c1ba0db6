"""Options of a decoding run, which are `t2t-decoder`'s flags; needs no TensorFlow."""

import dataclasses

from t2t_lite.data.problem import SPLITS
from t2t_lite.decoding.request import with_text_flags
from t2t_lite.errors import UsageError
from t2t_lite.runs.config import CHECKPOINT_HELP, OUTPUT_HELP
from t2t_lite.search.decode_hparams import DecodeHParams, HasDefaults
from t2t_lite.settings import Config, setting
from t2t_lite.text.languages import Languages

TENSORFLOW, CTRANSLATE2 = ENGINES = ("tensorflow", "ctranslate2")
ENGINE_HELP = (
    "What decodes: tensorflow, or ctranslate2, which is faster on most processors but decodes only "
    "Transformers. It reads an export of the checkpoint, which is kept in the run folder or, if "
    "that folder cannot be written, in the user's cache."
)
AUTO, FLOAT32, INT8 = "auto", "float32", "int8"
# CTranslate2's names; the int8 types compute all but matrix products in the type that follows.
COMPUTE_TYPES = (
    AUTO,
    FLOAT32,
    "float16",
    "bfloat16",
    "int16",
    INT8,
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
)
COMPUTE_TYPE_HELP = (
    "Type that CTranslate2 computes in; auto: the fastest one that the processor has instructions "
    "for. All but float32 may change outputs."
)
STANDARD_INPUT = "-"  # in place of a file's name
TEXT, JSON, ALIGNMENTS, SUBWORD_ALIGNMENTS = OUTPUT_FORMATS = (
    "text",
    "json",
    "alignments",
    "subword_alignments",
)
METRICS_HELP = (
    "Metrics that score the outputs, separated by commas: bleu, bleu_zh, chrf, chrf_plus_plus, "
    "edit_distance, word_error_rate, sari, "
    "ter, rouge_1, rouge_2, rouge_l, exact_match, token_accuracy, numbers_exact, bracketing_f1, "
    "rmse, mse, pearson and spearman (of numbers), "
    "terms_met:FILE (the share of the words that the file asks for), wrong_language "
    "(the share of outputs that are clearly in another language), aer (of alignments), "
    "one of your own (--t2t_usr_dir), or command:PROGRAM, which gets three files as arguments "
    "(sources, outputs, references) and prints one number per line, or one for all. Quote commas "
    "in the program's own arguments: \"command:./score.sh 'a,b'\" (default: the problem's own)."
)
QUALITY_HELP = (
    "Run folder of a quality model (problem quality_tmpdir), which tells the confidence of each "
    "output, from 0 to 1: in JSON, in Python and over HTTP."
)
_SHORT = "short for the decode hparam of this name."
_SHORT_FORMS = ("shortlist", *(f"{side}_language" for side in Languages._fields))
_MUST_AGREE = "Must agree with the run folder, if given."


def check_worker(shards: int, worker_id: int) -> None:
    """Raises UsageError unless there is a worker of this number among `shards`."""
    if worker_id >= shards:
        raise UsageError(
            f"--worker_id={worker_id}, but --decode_shards={shards}: the workers are 0 to "
            f"{shards - 1}"
        )


def check_compute_type(engine: str, compute_type: str) -> None:
    """Raises UsageError if a type is given to an engine that does not compute in it."""
    if engine != CTRANSLATE2 and compute_type != FLOAT32:
        raise UsageError(
            f"--compute_type={compute_type} needs --engine={CTRANSLATE2}: give both, or leave "
            "--compute_type out (the type of other engines is the decode hparam dtype)"
        )


@with_text_flags
@dataclasses.dataclass(frozen=True, kw_only=True)
class DecoderConfig(Config):
    """One run of `jobs.run`; empty text means "not given".

    `with_text_flags` adds what may be asked of texts (request.py), to the input.
    """

    output_dir: str = setting("", OUTPUT_HELP, path=True, group="The trained model")
    # Names of checkpoints (runs/checkpoint_names.py): as a tuple, or with "," between them.
    checkpoint_path: str | tuple[str, ...] = setting(
        "",
        f"{CHECKPOINT_HELP} Several, separated by commas, decode together as an ensemble.",
        path=True,
        listed=True,
    )
    problem: str = setting("", _MUST_AGREE)
    model: str = setting("", _MUST_AGREE)
    hparams_set: str = setting("", _MUST_AGREE)
    hparams: str = setting("", "Changes to the run's hyperparameters: NAME=VALUE,...", listed=True)
    decode_from_file: str = setting(
        "",
        "Text file to decode, one sentence (or a language model's prompt) per line; or a document "
        "that is translated as a whole: .html, .po or .xliff; - decodes standard input, line by "
        "line as it arrives, to standard output.",
        reads=True,
        group="Input",
    )
    as_lines: bool = setting(
        False, "Decode --decode_from_file line by line, even if it is named like a document."
    )
    fuzzy: bool = setting(
        False, "Mark the new translations of a .po file as fuzzy, for somebody to review."
    )
    review_below: float = setting(
        0.0,
        "Mark the new translations of a .po or XLIFF file for review if their confidence "
        "(--quality_run) is below this, and no others.",
        minimum=0,
        maximum=1,
    )
    decode_interactive: bool = setting(False, "Decode lines as you type them.")
    score_file: str = setting(
        "",
        "File to score: a target for each line of --decode_from_file; or, without that flag, lines "
        "of source, tab and target. For a language model, it has lines of text, whose perplexity "
        "is printed. The scores are written to --decode_to_file, one per line.",
        reads=True,
    )
    prefix_file: str = setting(
        "",
        "How each output must begin: one line for each line of --decode_from_file.",
        reads=True,
    )
    decode_shards: int = setting(
        1,
        "Number of workers that decode a text together. Worker 0 reads INPUT000 if there is such "
        "a file, else its part of INPUT, and writes OUTPUT000, worker 1 OUTPUT001, and so on. The "
        "joined files are the same as the file that one process writes.",
        minimum=1,
    )
    worker_id: int = setting(0, "Which of the --decode_shards workers this is, from 0.", minimum=0)
    data_dir: str = setting(
        "",
        "Folder of t2t-datagen's files, to decode the dev split (when neither a file nor "
        "--decode_interactive is given).",
        path=True,
    )
    eval_use_test_set: bool = setting(False, "Decode the test split instead of dev.")
    dataset_split: str = setting(
        "", "Decode this split instead of dev, if the problem has it.", choices=tuple(SPLITS)
    )
    long_input: str = setting(
        "split",
        "What to do with lines of more than max_input_size subwords: split them at sentence ends, "
        "or else at the least harmful place, and rejoin the outputs; or truncate them. Sentences "
        "to parse, texts to classify and the examples of a split are always truncated.",
        choices=("split", "truncate"),
    )
    decode_to_file: str = setting(
        "",
        "File for the outputs, in the order of the inputs (default: named after the input).",
        writes=True,
        group="Output",
    )
    quality_run: str = setting("", QUALITY_HELP, path=True)
    output_format: str = setting(
        "text",
        "What a line has: the text; JSON with tokens, scores, log-probabilities and attention; "
        "links between words of source and output, such as 0-0 1-2; or links between subwords.",
        choices=OUTPUT_FORMATS,
    )
    decode_reference: str = setting(
        "",
        "References for --decode_from_file, one per line (bracketed trees for parsing); prints "
        "BLEU, or the problem's own score.",
        reads=True,
    )
    metrics: str = setting("", METRICS_HELP, listed=True)
    engine: str = setting(TENSORFLOW, ENGINE_HELP, choices=ENGINES, group="Search")
    compute_type: str = setting(FLOAT32, COMPUTE_TYPE_HELP, choices=COMPUTE_TYPES)
    shortlist: str = setting(
        "",
        "File of t2t-shortlist: outputs consist of the words that it lists for each source; "
        f"{_SHORT}",
        reads=True,
    )
    worker_gpu: int | None = setting(None, "GPUs to use; 0 uses the CPU (default: all).", minimum=0)
    decode_hparams: str = setting(
        "", "Changes to the problem's search settings, listed below: NAME=VALUE,...", listed=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_worker(self.decode_shards, self.worker_id)
        check_compute_type(self.engine, self.compute_type)
        given = DecodeHParams().override(self.decode_hparams)
        for flag in _SHORT_FORMS:
            value, other = getattr(self, flag), getattr(given, flag)
            if value and other and value != other:
                raise UsageError(
                    f"--{flag}={value} and --decode_hparams={flag}={other} differ: give one of them"
                )

    def search_settings(self, owner: HasDefaults) -> DecodeHParams:
        """Returns the defaults of a problem or run, changed by the flags.

        Raises:
            UsageError: a decode hparam is unknown, or its value is invalid.
        """
        changes = {name: value for name in _SHORT_FORMS if (value := getattr(self, name))}
        return DecodeHParams.of(owner, self.decode_hparams).copy(**changes)
