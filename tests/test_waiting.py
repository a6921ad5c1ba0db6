"""What another process makes is waited for, and its last thing is not lost."""

import pytest

from t2t_lite import waiting


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(waiting, "_POLL", 0.0)


class Making:
    """A process that makes one thing, and ends, after so many looks at it."""

    def __init__(self, looks: int) -> None:
        self._looks = looks
        self._left = ["last"]

    def find(self) -> str | None:
        return self._left.pop() if self.has_ended() and self._left else None

    def has_ended(self) -> bool:
        self._looks -= 1
        return self._looks < 0


@pytest.mark.parametrize("looks", range(6))
def test_what_comes_just_before_the_end_is_found(looks):
    making = Making(looks)
    assert [*waiting.arriving(making.find, -1, making.has_ended)] == ["last"]


def test_nothing_is_waited_for_longer_than_asked():
    assert [*waiting.arriving(lambda: None, 0)] == []
