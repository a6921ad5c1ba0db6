"""t2t-eval: scores a run's checkpoints on the dev or test split."""

import dataclasses
import json
import pathlib
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t_lite import files
from t2t_lite.bin.command import Command, checkpoint_names
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import OUTPUT_DIR, Flag
from t2t_lite.data.problem import SPLITS, split_to_decode
from t2t_lite.decoding.config import (
    COMPUTE_TYPE_HELP,
    COMPUTE_TYPES,
    ENGINE_HELP,
    ENGINES,
    FLOAT32,
    METRICS_HELP,
    TENSORFLOW,
)
from t2t_lite.errors import UsageError
from t2t_lite.metrics.by_name import check_metrics, output_metric, split_metrics
from t2t_lite.metrics.parts import labels_in, split_field
from t2t_lite.search.decode_hparams import DecodeHParams

if TYPE_CHECKING:
    from t2t_lite.metrics.bootstrap import BootstrapResult
    from t2t_lite.training.checkpoint_evaluation import CheckpointScores

COMMAND = Command(
    "t2t-eval",
    "scores checkpoints: loss, perplexity, accuracy, BLEU or other metrics of their outputs,\n"
    "with confidence intervals and comparisons to the first by paired bootstrap resampling.",
    [
        "t2t-eval --output_dir=runs/base --checkpoint_path=best --eval_use_test_set",
        "t2t-eval --output_dir=runs/base --checkpoint_path=newest,averaged",
        "t2t-eval --output_dir=runs/base --segment_scores=scores.jsonl",
        "t2t-eval --output_dir=runs/base --metrics=bleu,chrf,command:./comet.sh",
        "t2t-eval --checkpoint_path=runs/base/model.ckpt-90000,runs/big/best.ckpt-300000",
    ],
    {
        "What to score": (
            OUTPUT_DIR,
            Flag(
                "checkpoint_path",
                str,
                "newest",
                "Checkpoints, separated by commas: paths in any run folder, or, in --output_dir, "
                "newest, best, averaged (the latest average), update numbers or file names.",
                listed=True,
            ),
        ),
        "Data": (
            Flag("data_dir", pathlib.Path, "", "Folder of the data (default: the run's own)."),
            Flag("eval_use_test_set", bool, False, "Score on the test split instead of dev."),
            Flag(
                "dataset_split",
                str,
                "",
                "Score on this split instead of dev, if the problem has it.",
                choices=tuple(SPLITS),
            ),
        ),
        "How": (
            Flag("metrics", str, "", METRICS_HELP, listed=True),
            Flag(
                "decode_hparams",
                str,
                "",
                "Changes to the problem's search settings: NAME=VALUE,... (t2t-decoder --help).",
                listed=True,
            ),
            Flag("engine", str, TENSORFLOW, ENGINE_HELP, choices=ENGINES),
            Flag("compute_type", str, FLOAT32, COMPUTE_TYPE_HELP, choices=COMPUTE_TYPES),
            Flag(
                "output_format",
                str,
                "table",
                "Print a table, or one JSON object.",
                choices=("table", "json"),
            ),
            Flag(
                "segment_scores",
                pathlib.Path,
                "",
                "File for a line of JSON for each output: source, output, reference, and the "
                "output's own chrF and TER, to train a model of quality on.",
                writes=True,
            ),
            Flag("worker_gpu", int, None, "GPUs to use; 0 uses the CPU (default: all).", minimum=0),
        ),
    },
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require_run(args)
    split = split_to_decode(args.dataset_split, args.eval_use_test_set)
    DecodeHParams().override(args.decode_hparams).require_one_output()
    metrics = split_metrics(args.metrics)
    check_metrics(metrics)
    if args.segment_scores:
        files.require_writable(args.segment_scores, "--segment_scores")
    with quiet_import():
        from t2t_lite.runs.checkpoint_names import named_checkpoint
        from t2t_lite.training import checkpoint_evaluation, devices
    strategy = devices.make_strategy(args.worker_gpu)  # before TensorFlow reads a file
    # Two names may refer to the same checkpoint.
    paths = dict.fromkeys(
        named_checkpoint(name, args.output_dir) for name in checkpoint_names(args)
    )
    if not paths:
        raise UsageError(f"--checkpoint_path={args.checkpoint_path}: name a checkpoint")
    scored = checkpoint_evaluation.score_checkpoints(
        list(paths),
        strategy,
        split,
        args.data_dir,
        args.decode_hparams,
        metrics,
        (args.engine, args.compute_type),
        args.segment_scores,
    )
    if args.output_format == "json":
        checkpoints = [dataclasses.asdict(scores) for scores in scored]
        print(json.dumps({"split": split, "checkpoints": checkpoints}, indent=1))
    else:
        print(_table(scored))


def _table(scored: Sequence["CheckpointScores"]) -> str:
    """Returns a row per number and a column per checkpoint, followed by the signatures.

    The rows of a mixture's means and of each member are blocks, with an empty line between.
    """
    rows = [["", *(s.checkpoint for s in scored)], ["step", *(str(s.step) for s in scored)]]
    notes = {}
    labels = labels_in(scored[0].values)
    for block in ("", *labels):
        if block:
            rows.append([""] * len(rows[0]))
        for name, value in scored[0].values.items():
            if split_field(name, labels)[1] != block:
                continue
            if isinstance(value, str):
                notes[name] = value
            else:
                rows.append([name, *(f"{s.values[name]:.6g}" for s in scored)])
        for name, resampled in _bootstraps(scored).items():
            if split_field(name, labels)[1] == block:
                rows += _bootstrap_rows(f"{name} bootstrap", resampled)
                notes[f"{resampled[0].metric} bootstrap signature"] = resampled[0].signature
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, *(f"{name}: {note}" for name, note in notes.items())])


def _bootstrap_rows(title: str, resampled: Sequence["BootstrapResult"]) -> list[list[str]]:
    """Returns the mean, and for several checkpoints the p-value."""
    rows = [[f"{title} mean", *map(_interval, resampled)]]
    if len(resampled) > 1:
        p_values = ("baseline" if r.p_value is None else f"{r.p_value:.4f}" for r in resampled)
        rows.append([f"{title} p-value", *p_values])
    return rows


def _interval(result: "BootstrapResult") -> str:
    """Returns the mean and half of the interval, with the digits of the metric's score."""
    form = output_metric(result.metric).form
    return " ± ".join(f"{number:{form}}".strip() for number in (result.mean, result.half_width))


def _bootstraps(
    scored: Sequence["CheckpointScores"],
) -> dict[str, list["BootstrapResult"]]:
    """Returns the checkpoints' bootstrap results by the name of the value that was resampled."""
    first = [s.resampled for s in scored if s.resampled]
    others = {name: [s.other_resampled[name] for s in scored] for name in scored[0].other_resampled}
    return ({first[0].metric: first} if first else {}) | others


if __name__ == "__main__":
    main()
