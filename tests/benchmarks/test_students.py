"""The benchmark of students: the steps it takes, once each, and its table."""

import argparse
import dataclasses
import itertools

import pytest

from support.scripts import import_script

pytest.importorskip("ctranslate2")
students = import_script("students")


@pytest.fixture
def args(tmp_path, monkeypatch):
    """The arguments of a run whose commands and translations are replaced; `calls` lists them."""
    calls = []

    def command(module, **flags):
        calls.append(module)
        if module == "t2t_trainer":
            flags["output_dir"].mkdir(parents=True)
            (flags["output_dir"] / f"model.ckpt-{flags.get('train_steps', 40)}.index").touch()
        if module == "t2t_distill":
            flags["output_problem_dir"].mkdir(exist_ok=True)
            for side in ("inputs", "targets"):
                (flags["output_problem_dir"] / f"{side}.train.txt").write_text(f"{DISTILLED}\n")
        if module == "t2t_shortlist":
            flags["shortlist"].touch()
        if module == "t2t_exporter":
            version = flags["export_dir"] / flags["format"] / "1"
            version.mkdir(parents=True)
            files = {"ctranslate2": {"model.bin": 1}, "firefox": FIREFOX}[flags["format"]]
            for name, size in files.items():
                (version / name).write_bytes(b"0" * 100_000 * size)

    class Pool:
        def __init__(self, _):
            pass

        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda *_: None  # noqa: E731

        def apply(self, function, work):
            assert function is students.translated
            calls.append("translated")
            engine, lines, core = work
            assert core == 1
            seconds = 1
            if isinstance(engine, students.Ours):
                assert bool(engine.shortlist) == engine.row.has_shortlist
                seconds = engine.row.beam_size
            return {test: ["x"] * len(lines[test]) for test in lines}, float(seconds)

    pairs = [(f"Sentence {n}.", f"Satz {n}.") for n in range(500)]
    monkeypatch.setattr(students, "command", command)
    monkeypatch.setattr(students, "bleu", lambda translation, reference: "12.3")
    monkeypatch.setattr(students, "libreoffice", lambda path: pairs)
    monkeypatch.setattr(students, "manythings", lambda path: dict.fromkeys(SPLITS, pairs))
    monkeypatch.setattr(
        students.multiprocessing, "get_context", lambda _: argparse.Namespace(Pool=Pool)
    )
    return argparse.Namespace(
        output_dir=tmp_path,
        libreoffice=tmp_path,
        manythings=tmp_path,
        pairs=7,
        sentences=30,
        teacher_minutes=1.0,
        student_minutes=1.0,
        core=1,
        rows=range(1, len(students.ROWS) + 1),
        calls=calls,
    )


SPLITS = ("train", "dev", "test")
FIREFOX = {
    "model.ende.float32.bin": 4,
    "model.ende.intgemm.alphas.bin": 1,
    "vocab.ende.spm": 9,
    "lex.50.50.ende.s2t.bin": 2,
}
DISTILLED = "As the teacher says it."


def test_the_table_has_a_row_for_each_step(args, tmp_path):
    lines = list(students.Students(args).run())
    assert len(lines) == 2 + len(students.ROWS)
    # Twice 30 sentences of two words in as many seconds as there are beams.
    assert lines[2] == "| teacher, TensorFlow | 40 | 30 | 1.0 | 12.3 | 12.3 | 0.1 |"
    assert "| greedy search | 40 | 120 | 4.0 | 12.3 | 12.3 | 0.1 |" in lines
    assert [line.split("|")[-2] for line in lines[-3:]] == [" 0.4 ", " 0.1 ", " 0.3 "]
    assert len((tmp_path / "text/human/inputs.train.txt").read_text().splitlines()) == 7
    both = (tmp_path / "text/both/inputs.train.txt").read_text().splitlines()
    assert len(both) == 8
    assert both[-1] == DISTILLED
    assert args.calls.count("t2t_trainer") == len(students.MODELS)


def test_finished_steps_are_not_taken_again(args):
    first = list(students.Students(args).run())
    args.calls.clear()
    assert list(students.Students(args).run()) == first
    assert args.calls == []


def test_the_teacher_translates_before_students_learn_from_it(args):
    list(students.Students(args).run())
    calls = [call for call in args.calls if call in ("t2t_trainer", "t2t_distill", "translated")]
    assert calls[:5] == [*["t2t_trainer"] * 3, "t2t_distill", "t2t_trainer"]
    assert calls[5:8] == [*["t2t_trainer"] * 2, "translated"]
    assert calls.index("translated") > len(calls) - calls[::-1].index("t2t_trainer") - 1


def test_a_row_changes_one_thing():
    for before, row in itertools.pairwise(students.STUDENTS[2:]):
        one, other = students.MODELS[before.model], students.MODELS[row.model]
        changes = [
            one.data != other.data,
            one.hparams_set != other.hparams_set,
            one.from_teacher != other.from_teacher,
            before.has_shortlist != row.has_shortlist,
            before.beam_size != row.beam_size,
            before.compute_type != row.compute_type,
        ]
        assert sum(changes) == 1, row.name


def test_the_recurrent_student_differs_from_the_third_row_in_its_layers_and_rate_alone():
    other = students.MODELS[students.STUDENTS[2].model]
    for name in ("ssru", "ssru, equal updates"):
        model = students.MODELS[name]
        rate = model.hparams.replace(students._POST_NORM, students._SCRATCH)
        wanted = {"hparams_set": other.hparams_set, "hparams": rate, "updates_of": ""}
        assert dataclasses.replace(model, **wanted) == other
    assert students.MODELS["ssru, equal updates"].updates_of == students.STUDENTS[2].model
