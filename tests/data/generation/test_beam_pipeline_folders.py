"""Folder names with special characters: Beam's file systems read all names as glob patterns."""

import pytest


@pytest.mark.integration
@pytest.mark.parametrize("name", ["*", "a?", "[x]", "d [1] b", "ü, {a}"])
def test_no_other_folder_is_searched(tmp_path, name):
    pytest.importorskip("apache_beam")
    from t2t_lite.data.generation import beam_pipeline

    for other in (name, "x", "ab"):
        (tmp_path / other).mkdir()
        (tmp_path / other / "data-1.incomplete").touch()
        (tmp_path / other / "data-train-chunks.incomplete").mkdir()
    folder = str(tmp_path / name)
    assert beam_pipeline._matches(folder, "data-*.incomplete") == [f"{folder}/data-1.incomplete"]
    beam_pipeline._delete(beam_pipeline._matches(folder, "data-*.incomplete"))
    assert [path.parent.name for path in sorted(tmp_path.rglob("data-1*"))] == ["ab", "x"]
