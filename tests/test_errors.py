"""What stands in messages."""

import pytest

from support.growth import assert_grows_gently
from t2t_lite.errors import describe_os_error, did_you_mean, quoted, warn_once


def test_what_a_file_holds_is_quoted_in_short():
    assert quoted("it's") == '"it\'s"'
    assert len(quoted("x" * 10**7)) <= 120


def test_the_nearest_name_is_found_in_short_time():
    def names(n):
        return [f"corpus/part-{number:06d}.txt" for number in range(n)]

    assert did_you_mean("x" * 10**6, names(300_000)) == ""
    assert_grows_gently(names, lambda names: did_you_mean("corpus/par-00001.txt", names), 5000)
    assert_grows_gently(lambda n: "x" * n, lambda long: did_you_mean(long, names(100)), 10**5)


def test_a_file_in_the_place_of_a_folder_is_said_to_be_one(tmp_path):
    path = tmp_path / "data"
    path.touch()
    with pytest.raises(FileExistsError) as raised:
        path.mkdir(exist_ok=True)
    assert describe_os_error(raised.value) == f"{path}: it is a file: name a folder"


def test_a_warning_is_given_once(caplog):
    warn_once.cache_clear()
    for message in ("50%", "100%", "50%"):
        warn_once(message)
    assert caplog.messages == ["50%", "100%"]
