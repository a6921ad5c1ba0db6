import pytest

from t2t_lite.errors import UserError
from t2t_lite.interop.export.folder import new_folders


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_versions_of_several_kinds_are_counted_together(tmp_path):
    (tmp_path / "b" / "3").mkdir(parents=True)
    for kinds in (["a", "b"], ["a"]):
        with new_folders(str(tmp_path), kinds):
            pass
    assert names(tmp_path) == ["a", "a/4", "a/5", "b", "b/3", "b/4"]


def test_no_two_exporters_write_the_same_version(tmp_path):
    export_dir = tmp_path / "new"
    with new_folders(str(export_dir), ["a", "b"]) as folders:
        (folders["a"] / "model").touch()
        with (
            pytest.raises(UserError, match=r"another t2t-exporter is writing into .*new/a; wait"),
            new_folders(str(export_dir), ["a"]),
        ):
            pass
        with new_folders(str(export_dir), ["c"]):
            pass
    assert names(export_dir) == ["a", "a/1", "a/1/model", "b", "b/1", "c", "c/1"]
