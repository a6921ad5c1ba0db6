"""The recorded numbers that the tests compare with: which are here, and what is said of others."""

import pathlib
import types

import pytest

HERE = pathlib.Path(__file__).parent


@pytest.fixture
def conftest(request, monkeypatch, tmp_path):
    """The conftest module of all tests, on a machine that has nothing beside the clone."""
    module = request.config.pluginmanager.get_plugin(str(HERE / "conftest.py"))
    monkeypatch.setattr(module, "_SHARED", tmp_path)
    return module


def test_the_committed_recordings_need_nothing_beside_the_clone(conftest):
    golden = conftest.Golden()
    assert golden / "transformer" / "base_v3" == HERE / "golden/transformer/base_v3"
    assert golden / "units.npz" == HERE / "golden/units.npz"
    described = (HERE / "golden" / "README.md").read_text(encoding="utf-8")
    for path in (HERE / "golden").iterdir():
        assert path.name == "README.md" or f"`{path.name}" in described or path.is_dir(), path


def test_the_others_are_found_beside_the_clone_or_skip(conftest, tmp_path):
    golden = conftest.Golden()
    with pytest.raises(pytest.skip.Exception, match=r"bleu\.json is not on this machine"):
        golden / "bleu.json"
    (tmp_path / "golden").mkdir()
    (tmp_path / "golden" / "bleu.json").touch()
    assert golden / "bleu.json" == tmp_path / "golden" / "bleu.json"


def test_one_line_says_what_was_skipped(conftest, tmp_path):
    def skipped(reason):
        return types.SimpleNamespace(longrepr=("tests/test_x.py", 1, f"Skipped: {reason}"))

    lines = []
    reports = [skipped(f"{tmp_path}/data is not on this machine")] * 2
    reports += [skipped(f"{tmp_path}/golden/bleu.json is not on this machine")]
    reports += [skipped("no chromium is on this machine")]
    reporter = types.SimpleNamespace(stats={"skipped": reports}, write_line=lines.append)
    conftest.pytest_terminal_summary(reporter)
    (line,) = lines
    assert "1 tests of recordings on third-party text and 2 tests of real corpora" in line
    assert "tests/golden/README.md" in line
    reporter.stats = {"skipped": [skipped("no chromium is on this machine")]}
    conftest.pytest_terminal_summary(reporter)
    assert len(lines) == 1
