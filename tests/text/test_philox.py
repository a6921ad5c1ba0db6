import numpy as np
import pytest

from t2t_lite.text.philox import draw, philox

# Random123's known answers for philox4x32-10: counter, key, numbers.
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)
KNOWN = [
    ((0,) * 6, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 6, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (PI, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


@pytest.mark.parametrize(("words", "expected"), KNOWN)
def test_known_answers(words, expected):
    numbers = philox(np.array([words[:4]] * 2, np.uint64), words[4:])
    assert numbers.tolist() == [[*expected]] * 2


def test_an_example_draws_the_same_in_any_batch():
    examples, counts = np.array([7, 2**35, 0, 5]), np.array([5, 0, 9, 4])
    together = draw((1, 2), 3, examples, counts)
    alone = [
        draw((1, 2), 3, examples[i : i + 1], np.array([9]))[:count]
        for i, count in enumerate(counts)
    ]
    assert together.tolist() == np.concatenate(alone).tolist()


def test_key_stream_and_example_all_count():
    counts = np.array([8])
    drawn = {
        tuple(draw(key, stream, np.array([example]), counts))
        for key in ((0, 0), (1, 0), (0, 1))
        for stream in (0, 1)
        for example in (0, 1, 2**32)
    }
    assert len(drawn) == 3 * 2 * 3
