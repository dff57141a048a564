"""The verdict on RSS, on curves whose author had read nothing of it (benchmarks/second_hand_curves.py has more)."""

from benchmarks.second_hand_curves import LEAST_RIGHT, MOST_ACCUSED, shares, told

SEEDS = range(400)
LEAST_NAMED = 0.6


def test_of_unknown_curves_leaks_are_named_and_no_others() -> None:
    named, accused, right = shares([told(seed) for seed in SEEDS])
    assert named is not None
    assert named >= LEAST_NAMED
    assert accused is not None
    assert accused <= MOST_ACCUSED
    assert right is not None
    assert right >= LEAST_RIGHT
