"""The README.md of every export says what hubs and readers want to know."""

import math
import pathlib
import re
from typing import Any

import pytest
import yaml

from support.registries import restored
from t2t_lite import registry
from t2t_lite.data.mixture import MultilingualProblem
from t2t_lite.data.text_problems import Text2ClassProblem, Text2SelfProblem, TranslateProblem
from t2t_lite.hparams.transformer import transformer_tiny
from t2t_lite.interop.export.model_card import model_card
from t2t_lite.runs import metrics_jsonl
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.run_settings import RunSettings

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
LOSS = "evaluation loss"
USAGE = "# The title\n\nHow to use it.\n"


class Own(TranslateProblem):
    """From Finnish to Norwegian, in bytes."""

    base_name = "translate_fino_own"
    vocab_type = "character"
    licence = "CC-BY-SA-4.0"

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        return iter(())


class OwnText(Text2SelfProblem):
    base_name = "own_text"
    vocab_type = "character"
    generate_samples = Own.generate_samples


class OwnLabels(Text2ClassProblem):
    base_name = "own_labels"
    vocab_type = "character"
    num_classes = 2
    generate_samples = Own.generate_samples


def run_of(folder: pathlib.Path, problem, **flags: Any) -> RunFolder:
    hparams = transformer_tiny().override("num_hidden_layers=7").freeze()
    names = {"problem": problem.name, "model": "transformer", "hparams_set": "transformer_tiny"}
    return RunFolder(folder, RunSettings.of(names | flags), hparams, problem)


def evaluated(folder: pathlib.Path, step: int, **values: float | str) -> None:
    metrics_jsonl.append(folder, {"kind": "eval", "step": step, **values})


def card(run: RunFolder, checkpoint: str = "model.ckpt-7", codes: tuple[str, ...] = ()):
    """The front matter, and the rest."""
    text = model_card(run, str(run.folder / checkpoint), 7, "keras", USAGE, codes)
    _, front, rest = re.split(r"^---\n", text, maxsplit=2, flags=re.M)
    return yaml.safe_load(front), rest


def test_hubs_read_languages_licence_task_and_numbers(tmp_path):
    evaluated(tmp_path, 5, loss=9.0)
    evaluated(tmp_path, 7, loss=1.25, bleu=38.41712, bleu_signature=SIGNATURE, chrf=math.nan)
    evaluated(tmp_path, 9, loss=0.5)
    front, rest = card(run_of(tmp_path, Own()))
    (found,) = front.pop("model-index")
    assert front == {
        "language": ["fi", "no"],
        "license": "cc-by-sa-4.0",
        "library_name": "keras",
        "pipeline_tag": "translation",
        "tags": ["t2t_lite", "transformer"],
    }
    (result,) = found["results"]
    assert found["name"] == "transformer for translate_fino_own"
    assert result["task"] == {"type": "translation"}
    name = "translate_fino_own"
    assert result["dataset"] == {"type": name, "name": name, "split": "dev"}
    assert result["metrics"] == [
        {"type": "loss", "name": LOSS, "value": 1.25},
        {"type": "bleu", "name": "BLEU", "value": 38.4171, "args": {"signature": SIGNATURE}},
    ]
    assert rest.startswith(f"\n{USAGE}\n## Data\n")
    assert "from Finnish to Norwegian. Licence of the data: CC-BY-SA-4.0." in rest
    assert f"The dev split, after 7 updates, in training:\n\n- {LOSS}: 1.25\n" in rest
    assert f"- BLEU: 38.42 (`{SIGNATURE}`)" in rest
    assert "num_hidden_layers=7" in rest


def test_the_last_evaluation_of_the_checkpoint_counts(tmp_path):
    evaluated(tmp_path, 7, loss=1.5)
    evaluated(tmp_path, 7, loss=1.25)
    for name in ("model.ckpt-7", "best.ckpt-7"):
        front, _ = card(run_of(tmp_path, Own()), name)
        assert front["model-index"][0]["results"][0]["metrics"][0]["value"] == 1.25


@pytest.mark.parametrize("name", ["averaged.ckpt-7", "model.ckpt-8"])
def test_no_number_of_other_weights_is_given(tmp_path, name):
    evaluated(tmp_path, 8 if name == "model.ckpt-7" else 7, loss=1.5)
    front, rest = card_of_step(tmp_path, name)
    assert "model-index" not in front
    assert f"The run has no evaluation of the checkpoint {name}." in rest


def card_of_step(folder: pathlib.Path, name: str):
    run = run_of(folder, Own())
    text = model_card(run, str(folder / name), int(name.rpartition("-")[2]), "keras", USAGE)
    _, front, rest = re.split(r"^---\n", text, maxsplit=2, flags=re.M)
    return yaml.safe_load(front), rest


def test_a_separate_evaluator_names_its_split(tmp_path):
    evaluated(tmp_path, 7, loss=1.5, split_signature="test")
    front, rest = card(run_of(tmp_path, Own()))
    assert front["model-index"][0]["results"][0]["dataset"]["split"] == "test"
    assert "The test split, after" in rest


def test_the_split_is_the_one_that_was_evaluated(tmp_path):
    evaluated(tmp_path, 7, loss=1.5)
    front, rest = card(run_of(tmp_path, Own(), eval_use_test_set=True, eval_steps=3))
    assert front["model-index"][0]["results"][0]["dataset"]["split"] == "test"
    assert "The test split (loss and accuracy: of its first 3 batches), after" in rest


@pytest.mark.parametrize(
    ("licence", "expected"),
    [
        ("MPL-2.0", {"license": "mpl-2.0"}),
        ("for research: no 'use'", {"license": "other", "license_name": "for research: no 'use'"}),
        ("", {}),
    ],
)
def test_the_licence_is_the_problems(tmp_path, licence, expected):
    problem = type("Problem", (Own,), {"licence": licence, "base_name": "own"})()
    front, rest = card(run_of(tmp_path, problem))
    assert {k: v for k, v in front.items() if k.startswith("license")} == expected
    assert ("add `license:` at the top" in rest) == (not licence)
    assert "language" not in front


@pytest.mark.parametrize(
    ("problem", "task"),
    [
        (OwnText(), "text-generation"),
        (OwnLabels(), "text-classification"),
        (Own(was_reversed=True), "translation"),
    ],
)
def test_the_task_follows_from_the_problem(tmp_path, problem, task):
    front, _ = card(run_of(tmp_path, problem))
    assert front["pipeline_tag"] == task
    assert front.get("language", []) == (["no", "fi"] if problem.was_reversed else [])


@pytest.mark.parametrize(
    ("codes", "languages", "direction"),
    [
        (("de", "pt-BR"), ["de", "pt"], ", from German to Portuguese."),
        (("", ""), ["fi", "no"], ", from Finnish to Norwegian."),
        (("de", ""), ["de"], "`translate_fino_own`."),
    ],
)
def test_the_languages_are_those_that_the_export_is_for(tmp_path, codes, languages, direction):
    front, rest = card(run_of(tmp_path, Own()), codes=codes)
    assert front["language"] == languages
    assert direction in rest


class Swedish(Own):
    base_name = "translate_fisv_own"
    licence = "for research"


def test_the_members_of_a_mixture_have_their_own_results(tmp_path, monkeypatch):
    class Mixture(MultilingualProblem):
        base_name = "own_mixture"
        directions = ("translate_fino_own", "translate_fisv_own")

    encoders = Own().feature_encoders("")
    monkeypatch.setattr(RunFolder, "encoders", property(lambda run: encoders))
    fields = {"bleu": 15.0, "loss": 1.0, "bleu_signature": SIGNATURE}
    evaluated(tmp_path, 7, **fields, loss__no=1.0, bleu__no=10.0, loss__sv=1.0, bleu__sv=20.0)
    with restored():
        registry.register_problem("translate_fino_own")(Own)
        registry.register_problem("translate_fisv_own")(Swedish)
        front, rest = card(run_of(tmp_path, Mixture()))
    assert front["language"] == ["fi", "no", "sv"]
    assert front["license_name"] == (
        "translate_fino_own: CC-BY-SA-4.0; translate_fisv_own: for research"
    )
    results = front["model-index"][0]["results"]
    assert [result["dataset"]["name"] for result in results] == [
        "own_mixture",
        "own_mixture (no)",
        "own_mixture (sv)",
    ]
    values = [{m["type"]: m for m in result["metrics"]}["bleu"] for result in results]
    assert [value["value"] for value in values] == [15, 10, 20]
    assert all(value["args"]["signature"] == SIGNATURE for value in values)
    assert f"- sv: BLEU: 20 (`{SIGNATURE}`)" in rest


def test_every_registered_licence_is_text():
    for name in registry.list_problems():
        licence = registry.problem(name).licence
        assert isinstance(licence, str)
        assert licence == licence.strip(" .")
