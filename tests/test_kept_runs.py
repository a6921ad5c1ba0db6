"""Folders kept for the tests: the right one, or a new one."""

import multiprocessing
import os
import pathlib
import shutil

import pytest

from support import kept_runs
from support.kept_runs import CODE, ROOT, code_files, digest_of_code, forget_oldest, kept_folder

_MADE = "made.log"  # beside the folders: a line for each that was made


def write(folder: pathlib.Path, text: str, log: pathlib.Path) -> None:
    folder.mkdir()
    (folder / "text").write_text(text)
    with log.open("a") as file:
        file.write(f"{text}\n")


@pytest.fixture
def kept(tmp_path):
    """Returns a function that asks for a folder with a text, and what has been made since."""
    code, log = tmp_path / "code", tmp_path / _MADE
    for place in CODE:
        (code / place).parent.mkdir(parents=True, exist_ok=True)
    for place in ("t2t_lite/layers/attention.py", "tests/support/helper.py", "tests/conftest.py"):
        (code / place).parent.mkdir(parents=True, exist_ok=True)
        (code / place).write_text("x = 1\n")

    def ask(text: str, name: str) -> str:
        digest_of_code.cache_clear()  # as in a new process
        kept_runs._machine.cache_clear()
        others = {"cache": tmp_path / "cache", "code": code}
        kept_folder(tmp_path / name, lambda folder: write(folder, text, log), text, **others)
        assert (tmp_path / name / "text").read_text() == text
        made = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return " ".join(made)

    return ask


def test_a_folder_is_made_once_for_equal_code_and_settings(kept, tmp_path):
    assert kept("a", "one") == "a"
    (tmp_path / "one" / "text").write_text("changed by a test")
    assert kept("a", "two") == ""
    assert kept("b", "three") == "b"


@pytest.mark.parametrize(
    "place", ["t2t_lite/layers/attention.py", "tests/support/helper.py", "tests/conftest.py"]
)
def test_one_changed_line_makes_it_anew(kept, tmp_path, place):
    assert kept("a", "one") == "a"
    path = tmp_path / "code" / place
    path.write_text("x = 2\n")
    assert kept("a", "two") == "a"
    path.write_text("x = 1\n")
    assert kept("a", "three") == ""


def test_a_new_a_renamed_and_a_removed_file_make_it_anew(kept, tmp_path):
    assert kept("a", "one") == "a"
    folder = tmp_path / "code" / "t2t_lite" / "layers"
    (folder / "new.py").write_text("")
    assert kept("a", "two") == "a"
    (folder / "new.py").rename(folder / "other.py")
    assert kept("a", "three") == "a"
    (folder / "attention.py").unlink()
    assert kept("a", "four") == "a"


def test_kernels_and_versions_make_it_anew(kept, monkeypatch):
    assert kept("a", "one") == "a"
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
    assert kept("a", "two") == "a"
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    assert kept("a", "three") == ""


def test_every_file_of_the_package_counts():
    """Also those behind the package's symbolic links, and its data."""
    counted = set(code_files(ROOT))
    package = ROOT / "t2t_lite"
    real = {pathlib.Path(os.path.realpath(path)) for path in package.rglob("*.py")}
    for name in ("problems", "hparams", "bin"):
        real |= set((ROOT / name).rglob("*.py"))
    assert real <= counted
    assert package / "serving" / "page.html" in counted


def test_what_cannot_be_made_is_not_kept(tmp_path):
    def fail(folder):
        folder.mkdir()
        raise ValueError("on purpose")

    for _ in range(2):
        with pytest.raises(ValueError, match="on purpose"):
            kept_folder(tmp_path / "one", fail, cache=tmp_path / "cache", code=tmp_path)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"]


def _ask(folder: pathlib.Path, number: int) -> None:
    others = {"cache": folder / "cache", "code": folder / "code"}
    kept_folder(folder / str(number), lambda path: write(path, "a", folder / _MADE), **others)


@pytest.mark.integration
def test_two_runs_at_once_make_it_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_ask, args=(tmp_path, number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert (tmp_path / _MADE).read_text() == "a\n"
    assert [(tmp_path / str(number) / "text").read_text() for number in range(4)] == ["a"] * 4


def test_the_folders_used_longest_ago_are_forgotten(tmp_path):
    for number in range(4):
        folder = tmp_path / f"{number:064d}"
        folder.mkdir()
        (folder / "text").write_bytes(bytes(100))
        os.utime(folder, (number, number))
    with kept_runs._locked(tmp_path / f"{1:064d}.lock"):  # in use
        forget_oldest(tmp_path, most_bytes=250)
    names = {int(path.name) for path in tmp_path.iterdir() if path.is_dir()}
    assert names == {1, 2, 3}
    forget_oldest(tmp_path, most_bytes=250)
    assert {int(path.name) for path in tmp_path.iterdir() if path.is_dir()} == {2, 3}
    shutil.rmtree(tmp_path / f"{2:064d}")


def test_what_another_process_has_just_removed_is_passed_over(tmp_path):
    """A link to nothing is listed, too, and is not there."""
    for name in ("incomplete-one", "0" * 64):
        (tmp_path / name).symlink_to("removed")
    forget_oldest(tmp_path, most_bytes=0)
