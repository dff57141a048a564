"""The verdict on RSS, on curves whose author had read nothing of it (benchmarks/second_hand_curves.py has more)."""

from benchmarks.second_hand_curves import LEAST_RIGHT, MOST_ACCUSED, share, told

SEEDS = range(400)
LEAST_NAMED = 0.6


def test_of_unknown_curves_leaks_are_named_and_no_others() -> None:
    seen = [told(seed) for seed in SEEDS]
    leaks, bounded = ([each for each in seen if each.truth.leaks is leaks] for leaks in (True, False))
    assert share(bounded, lambda each: each.is_growing) <= MOST_ACCUSED
    assert share(leaks, lambda each: each.is_growing) >= LEAST_NAMED
    assert share([each for each in seen if each.is_growing], lambda each: each.truth.leaks) >= LEAST_RIGHT
