"""The model card: the README.md of every export, which begins with what hubs read.

That is YAML between two lines `---`, as https://huggingface.co/docs/hub/model-cards describes it:
languages, licence, task, and the numbers of the run's evaluations, each with its signature.
"""

import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from t2t_lite.data.problem import SPLIT_FILE_NAMES, DatasetSplit, Problem
from t2t_lite.metrics.by_name import find_metric
from t2t_lite.metrics.parts import labels_in, split_field
from t2t_lite.runs import run_folder
from t2t_lite.runs.checkpoint_files import CHECKPOINT_NAME
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.selection import BEST_NAME, SPLIT, evaluations
from t2t_lite.text.language_names import english_name
from t2t_lite.text.languages import choices
from t2t_lite.version import __version__

# The licences of data that hubs know by name, which is SPDX's in small letters; the others are
# called `other`.
_KNOWN_LICENCES = {
    *("apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "isc", "mpl-2.0", "unlicense"),
    *("gpl-2.0", "gpl-3.0", "lgpl-2.1", "lgpl-3.0", "agpl-3.0", "gfdl", "odbl", "odc-by", "pddl"),
    *("cc0-1.0", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0"),
    *("cc-by-sa-4.0", "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nd-4.0"),
    *("cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0", "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0"),
    "cc-by-nc-sa-4.0",
}
_TRANSLATION = "translation"
_DIGITS = 4  # of numbers


class _Number(NamedTuple):
    """A number of an evaluation.

    Attributes:
        label: of the member of a mixture that it belongs to; "": it is of the whole problem.
        name: as in metrics.jsonl, without the label.
        title: in words.
        value: finite.
        signature: how it was computed; "": it has none.
    """

    label: str
    name: str
    title: str
    value: float
    signature: str


def model_card(
    run: RunFolder,
    checkpoint: str,
    step: int,
    library: str,
    usage: str,
    codes: Sequence[str] = (),
) -> str:
    """Returns the text of README.md.

    Args:
        run: what is exported.
        checkpoint: prefix of the exported checkpoint.
        step: its step.
        library: the name by which hubs know what reads the export.
        usage: the card's title and how to use the export.
        codes: of the source's and the target's language, if the export is for these alone.
    """
    languages = _languages(codes if any(codes) else _all_codes(run))
    if not any(codes):
        codes = (run.problem.source_language, run.problem.target_language)
    numbers = _numbers(run, checkpoint, step)
    front = "\n".join(_yaml(_front_matter(run, library, languages, numbers)))
    sections = [_data(run, codes), _evaluation(run, checkpoint, step, numbers), _settings(run)]
    return "\n".join([f"---\n{front}\n---\n", usage, *sections])


# ---- what hubs read


def _front_matter(
    run: RunFolder, library: str, languages: Sequence[str], numbers: Sequence[_Number]
) -> dict[str, Any]:
    problem = run.problem
    task = _task(problem)
    split = _evaluated_split(run)
    results = [
        {
            "task": {"type": task},
            "dataset": {
                "type": problem.name,
                "name": f"{problem.name} ({label})" if label else problem.name,
                "split": split,
            },
            "metrics": [_metric(number) for number in numbers if number.label == label],
        }
        for label in dict.fromkeys(number.label for number in numbers)
    ]
    name = f"{run.model_name} for {problem.name}"
    fields = {
        "language": languages,
        **_licence_fields(problem.licence),
        "library_name": library,
        "pipeline_tag": task,
        "tags": ["t2t_lite", run.model_name],
        "model-index": [{"name": name, "results": results}] if results else [],
    }
    return {name: value for name, value in fields.items() if value}


def _task(problem: Problem) -> str:
    """Returns a hub's name for what a problem's models do."""
    if not problem.has_inputs:
        return "text-generation"
    if not problem.has_text_targets:  # the hub has no task of its own for regression
        return "text-classification"
    return _TRANSLATION if problem.translates_lines else "text2text-generation"


def _licence_fields(licence: str) -> dict[str, str]:
    if licence.lower() in _KNOWN_LICENCES:
        return {"license": licence.lower()}
    return {"license": "other", "license_name": licence} if licence else {}


def _all_codes(run: RunFolder) -> list[str]:
    """Returns the codes of all languages that the model reads or writes."""
    codes = [
        code
        for member in run.problem.members
        for code in (member.source_language, member.target_language)
    ]
    for side in choices(run.encoders).values():
        codes += side.codes
    return codes


def _languages(codes: Sequence[str]) -> list[str]:
    """Returns the codes of ISO 639 among codes."""
    bare = (code.replace("_", "-").partition("-")[0].lower() for code in codes)
    return [code for code in dict.fromkeys(bare) if code and english_name(code)]


def _metric(number: _Number) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "type": number.name,
        "name": number.title,
        "value": round(number.value, _DIGITS),
    }
    return fields | ({"args": {"signature": number.signature}} if number.signature else {})


def _yaml(value: Mapping[str, Any] | Sequence[Any]) -> list[str]:
    """Returns the lines of objects and lists in YAML, of which JSON's scalars are a part."""
    lines: list[str] = []
    if isinstance(value, Mapping):
        for name, item in value.items():
            if isinstance(item, Mapping | list):
                lines += [f"{name}:", *(f"  {line}" for line in _yaml(item))]
            else:
                lines.append(f"{name}: {_scalar(item)}")
        return lines
    for item in value:
        first, *others = _yaml(item) if isinstance(item, Mapping | list) else [_scalar(item)]
        lines += [f"- {first}", *(f"  {line}" for line in others)]
    return lines


def _scalar(value: str | float) -> str:
    return json.dumps(value, ensure_ascii=False)


# ---- the run's evaluations


def _numbers(run: RunFolder, checkpoint: str, step: int) -> list[_Number]:
    """Returns the numbers of a checkpoint's evaluation in training; none for other checkpoints."""
    if pathlib.Path(checkpoint).name.rpartition("-")[0] not in (BEST_NAME, CHECKPOINT_NAME):
        return []  # an average
    record: Mapping[str, Any] = {}
    for other in evaluations(run.folder):
        if other["step"] == step:
            record = other
    labels = labels_in(record)
    numbers = []
    for field, value in record.items():
        name, label = split_field(field, labels)
        metric = find_metric(name)
        if metric is None or isinstance(value, str) or not math.isfinite(value):
            continue
        signature = record.get(f"{name}_signature", "")
        if label:
            signature = record.get(f"{name}_signature__{label}", signature)
        numbers.append(_Number(label, name, metric.title, float(value), signature))
    return numbers


def _evaluated_split(run: RunFolder) -> str:
    """Returns the name of the split that the run's evaluations are on."""
    trainers = DatasetSplit.TEST if run.settings.eval_use_test_set else DatasetSplit.EVAL
    named = (record[SPLIT] for record in evaluations(run.folder) if SPLIT in record)
    return next(named, SPLIT_FILE_NAMES[trainers])  # a separate evaluator names its own


# ---- sections


def _data(run: RunFolder, codes: Sequence[str]) -> str:
    problem = run.problem
    named = [english_name(code) or code for code in codes]
    direction = f", from {named[0]} to {named[1]}" if all(named) else ""
    licence = (
        f"Licence of the data: {problem.licence}."
        if problem.licence
        else "The problem does not state the licence of the data. Before you publish the model, "
        "add `license:` at the top of this file."
    )
    return f"## Data\n\nProblem `{problem.name}`{direction}. {licence}\n"


def _evaluation(run: RunFolder, checkpoint: str, step: int, numbers: Sequence[_Number]) -> str:
    title = "## Evaluation\n\n"
    name = pathlib.Path(checkpoint).name
    if not numbers:
        return f"{title}The run has no evaluation of the checkpoint {name}.\n"
    split = _evaluated_split(run)
    batches = run.settings.eval_steps
    part = f" (loss and accuracy: of its first {batches} batches)" if batches else ""
    lines = [f"The {split} split{part}, after {step:,} updates, in training:\n"]
    for number in numbers:
        label = f"{number.label}: " if number.label else ""
        signature = f" (`{number.signature}`)" if number.signature else ""
        lines.append(f"- {label}{number.title}: {number.value:.{_DIGITS}g}{signature}")
    return title + "\n".join(lines) + "\n"


def _settings(run: RunFolder) -> str:
    """Returns the hyperparameters that are not the model's defaults, and those of the search."""
    defaults = type(run.hparams)().to_dict()
    changed = {k: v for k, v in run.hparams.to_dict().items() if v != defaults[k]}
    search = ",".join(filter(None, [run.decode_hparams, run.settings.decode_hparams]))
    lines = [
        f"- Model `{run.model_name}`, set of hyperparameters `{run.hparams_set}`. Different from "
        f"the model's defaults: {_code(','.join(f'{k}={v}' for k, v in changed.items()))}",
        f"- Search in evaluations, different from the defaults: {_code(search)}",
        f"- Run folder of t2t_lite {run_folder.release(run.folder)}, exported by {__version__}",
    ]
    return "## Settings\n\n" + "\n".join(lines) + "\n"


def _code(text: str) -> str:
    return f"`{text}`" if text else "nothing"
