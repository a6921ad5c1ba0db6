"""The benchmark of the guide: the steps of a row, once each, by the rule's choice."""

import argparse
import gzip

import pytest

from support.scripts import import_script

choosing = import_script("choosing")


@pytest.fixture
def calls(monkeypatch):
    """The commands that were called, with their flags; they leave what the real ones leave."""
    found = []

    def command(module, **flags):
        found.append((module, flags))
        if module == "t2t_trainer":
            flags["output_dir"].mkdir(parents=True, exist_ok=True)
            (flags["output_dir"] / f"model.ckpt-{flags['train_steps']}.index").touch()
        if module == "t2t_decoder":
            flags["decode_to_file"].write_text("x\n")
        return "chrF =  45.60\n"

    monkeypatch.setattr(choosing, "command", command)
    monkeypatch.setattr(choosing, "bleu", lambda translation, reference: "12.3")
    return found


@pytest.fixture
def args(tmp_path):
    """The command's arguments for 300 of some 2,000 sentences."""
    text = tmp_path / "deu.txt.gz"
    with gzip.open(text, "wt", encoding="utf-8") as file:
        for number in range(2000):
            file.writelines(f"No. {number}.\tNr. {number}{end}\n" for end in ".!")
    return argparse.Namespace(
        text="tatoeba",
        data=text,
        pairs=300,
        output_dir=tmp_path / "row",
        problem=None,
        hparams_set=None,
        train_steps=None,
        hparams=None,
    )


def names(calls) -> list[str]:
    return [module for module, _ in calls]


def test_a_row_is_what_the_rule_names(calls, args):
    row = choosing.Choosing(args).row()
    assert row.startswith("| 300 pairs, tatoeba | `transformer_pairs5k` | 8,000 | 4,000 | 12.3 |")
    assert "| 45.60 |" in row
    assert names(calls) == ["t2t_datagen", "t2t_trainer", "t2t_decoder", "t2t_bleu"]
    training = dict(calls)["t2t_trainer"]
    assert (training["problem"], training["train_steps"]) == ("text2text_tmpdir_bpe", 4000)


def test_no_english_sentence_of_the_test_is_in_training(calls, args):
    args.pairs = None
    choosing.Choosing(args).row()
    sides = [
        (args.output_dir / "text" / f"inputs.{split}.txt").read_text().splitlines()
        for split in ("train", "eval", "test")
    ]
    assert all(sides)
    assert sum(len(set(side)) for side in sides) == len(set().union(*sides)) == 2000


def test_finished_steps_are_not_taken_again(calls, args):
    row = choosing.Choosing(args).row()
    calls.clear()
    args.data.unlink()
    assert choosing.Choosing(args).row() == row
    assert names(calls) == ["t2t_bleu"]


def test_a_killed_training_goes_on_and_its_time_counts(calls, args, monkeypatch):
    seconds = iter([0.0, 3600.0, 5000.0, 5000.0 + 7200.0])
    monkeypatch.setattr(choosing, "child_seconds", lambda: next(seconds))
    whole = choosing.command

    def killed(module, **flags):
        if module == "t2t_trainer":
            raise SystemExit
        return whole(module, **flags)

    monkeypatch.setattr(choosing, "command", killed)
    with pytest.raises(SystemExit):
        choosing.Choosing(args).row()
    monkeypatch.setattr(choosing, "command", whole)
    assert "| 3.00 |" in choosing.Choosing(args).row()


def test_another_choice_has_a_folder_of_its_own(calls, args):
    choosing.Choosing(args).row()
    args.problem, args.hparams_set, args.train_steps = "text2text_tmpdir_bpe", "transformer_tiny", 7
    row = choosing.Choosing(args).row()
    assert row.startswith("| 300 pairs, tatoeba | `transformer_tiny` | 8,000 | 7 |")
    args.hparams = "hidden_size=8,dropout=0.1"
    row = choosing.Choosing(args).row()
    assert row.startswith(
        "| 300 pairs, tatoeba | `transformer_tiny`, `hidden_size=8,dropout=0.1` |"
    )
    trainings = [flags for module, flags in calls if module == "t2t_trainer"]
    assert [flags.get("hparams") for flags in trainings] == [None, None, args.hparams]
    folders = [flags["output_dir"] for flags in trainings]
    assert len(set(folders)) == 3
    assert "," not in str(folders[2]), "it separates checkpoints"


def test_the_other_texts(tmp_path):
    for split, name in {"train": "train", "eval": "val", "test": "test_2016_flickr"}.items():
        for language in ("en", "de"):
            (tmp_path / f"{name}.{language}").write_text(f"{split} {language}\n")
    found = choosing.multi30k(tmp_path)
    assert found == {split: [(f"{split} en", f"{split} de")] for split in ("train", "eval", "test")}
    for split in ("train", "dev", "test"):
        with gzip.open(tmp_path / f"{split}.tsv.gz", "wt", encoding="utf-8") as file:
            file.write(f"en\tde\n<b>{split}</b>\tDe\n")
    pages = choosing.help_pages(tmp_path)
    assert pages == {
        split: [(name, "De")] for split, name in zip(pages, ("train", "dev", "test"), strict=True)
    }
