"""What stands in messages."""

import time

from t2t_lite.errors import did_you_mean, quoted


def test_what_a_file_holds_is_quoted_in_short():
    assert quoted("it's") == '"it\'s"'
    assert len(quoted("x" * 10**7)) <= 120


def test_the_nearest_name_is_found_in_short_time():
    names = [f"corpus/part-{number:06d}.txt" for number in range(300_000)]
    start = time.thread_time()
    did_you_mean("corpus/par-00001.txt", names)
    assert did_you_mean("x" * 10**6, names) == ""
    assert time.thread_time() - start < 5
