"""All chance of a run, out of one seed: the executable has no `random`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    T = TypeVar("T")

_WORD = (1 << 64) - 1


class Rolls:
    """xorshift64* (Marsaglia, "Xorshift RNGs"; Vigna's multiplier)."""

    def __init__(self, seed: int) -> None:
        self.begin(seed)

    def begin(self, seed: int) -> None:
        self._state = (seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & _WORD or 1
        for _ in range(4):
            self.bits()

    def bits(self) -> int:
        """53 bits."""
        state = self._state
        state ^= state >> 12
        state ^= (state << 25) & _WORD
        state ^= state >> 27
        self._state = state
        return ((state * 0x2545F4914F6CDD1D) & _WORD) >> 11

    def below(self, most: int) -> int:
        """From 0 to `most` - 1."""
        return self.bits() % most

    def between(self, least: int, most: int) -> int:
        """Both included."""
        return least + self.bits() % (most - least + 1)

    def chance(self, thousandths: int) -> bool:
        return self.bits() % 1000 < thousandths

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.bits() % len(choices)]

    def scale(self, most: int) -> int:
        """From 0 to `most`, small ones as often as large ones."""
        return self.bits() % (1 << self.bits() % (most.bit_length() + 1)) % (most + 1)

    def some(self, choices: Sequence[T], most: int) -> list[T]:
        """Up to `most` of them, in any order, some perhaps twice."""
        return [self.pick(choices) for _ in range(self.below(most + 1))]


INTEGERS = (
    *(0, 1, 2, 3, 63, 64, 255, 256, 1023, 1024, 4096, 65535, 65536, 10**9, 10**15 - 1, 10**15, 10**16),
    *(
        2**31 - 1,
        2**31,
        2**32,
        2**53,
        2**53 + 1,
        2**61,
        2**62 - 1,
        2**62,
        2**62 + 1,
        2**63 - 1,
        2**63,
        2**64 - 1,
        2**64,
    ),
    *(10**19, 10**20 - 1, 10**20, 10**40),
)
"""Where compiled integers change their form (mypyc tags those below 2**62), and where ours change their meaning."""


EXACT = 1 << 50
"""Below that, a few of them together are a float without a loss. Compiled, `/` makes floats of what it divides first:
above 2**53 that changes the last digit, of KiB that no machine has."""


def integer(rolls: Rolls) -> int:
    """One that is at such an edge, or near it, or anywhere; a fifth of them below zero."""
    kind = rolls.below(4)
    number = rolls.pick(INTEGERS) + (rolls.below(3) - 1) * (kind == 1) if kind < 2 else rolls.scale(2**66)
    return -number if rolls.chance(200) else number


NUMBERS = (0.0, -0.0, 0.5, 1.5, 0.005, 2.675, 1e-9, 1e15, 1e15 - 0.25, 1e16, 1e22, 1e23, 1e300, 5e-324, 123456.785)


def real(rolls: Rolls) -> float:
    kind = rolls.below(8)
    if kind == 0:
        return rolls.pick((float("inf"), float("-inf"), float("nan")))
    if kind < 3:
        return rolls.pick(NUMBERS)
    return (rolls.scale(2**53) / (1 << rolls.below(40))) * (-1 if rolls.chance(200) else 1)


LETTERS = 'aZ09_-. /:,="\\\t\n\r\0\x1f\x7f\xa0é€\u2028\ud800\U0001f600٣²{}[]%'


def text(rolls: Rolls, most: int = 24, surrogates: bool = True) -> str:
    made = "".join(rolls.some(LETTERS, most))
    return made if surrogates else made.replace("\ud800", "")


def mangled(rolls: Rolls, content: bytes, below: int = 0) -> bytes:
    """The same with one or a few things wrong. Numbers that are put in are smaller than `below`, if that is given, or
    have more digits than any of the kernel's."""
    made = bytearray(content)
    for _ in range(1 + rolls.below(3)):
        at = rolls.below(len(made) + 1)
        kind = rolls.below(8)
        if kind == 0:
            del made[at:]
        elif kind == 1:
            del made[at : at + 1 + rolls.below(8)]
        elif kind == 2:
            made[at:at] = bytes([rolls.below(256)])
        elif kind == 3 and made:
            made[at % len(made)] ^= 1 << rolls.below(8)
        elif kind == 4:
            made[at:at] = made[rolls.below(len(made) + 1) :][:40]
        elif kind == 5:
            made[at:at] = b"%d" % (integer(rolls) % below if below else integer(rolls))
        else:  # another number in the place of one that is there
            while at < len(made) and not 48 <= made[at] <= 57:
                at += 1
            end = at
            while end < len(made) and 48 <= made[end] <= 57:
                end += 1
            if end > at:
                made[at:end] = b"%d" % (rolls.pick((integer(rolls) % below, 10**21)) if below else integer(rolls))
    return bytes(made)
