"""NamedTuple is what `typing.NamedTuple` is, as far as the sidecar uses it."""

import typing

import pytest
from truemem.support.named_tuple import NamedTuple


class Ours(NamedTuple):
    name: str
    size: int = 0
    kind: str = "file"


class Standard(typing.NamedTuple):
    name: str
    size: int = 0
    kind: str = "file"


@pytest.mark.parametrize(
    ("values", "named"),
    [(("a",), {}), (("a", 1, "b"), {}), (("a",), {"kind": "b"}), ((), {"kind": "b", "size": 2, "name": "a"})],
)
def test_its_members_are_those_of_the_standard_one(
    values: tuple[typing.Any, ...], named: dict[str, typing.Any]
) -> None:
    ours, standard = Ours(*values, **named), Standard(*values, **named)
    assert (ours.name, ours.size, ours.kind) == (standard.name, standard.size, standard.kind)
    assert tuple(ours) == tuple(standard)
    assert tuple(ours._replace(size=7)) == tuple(standard._replace(size=7))


@pytest.mark.parametrize(("values", "named"), [(("a", 1, "b", 2), {}), (("a",), {"name": "b"}), (("a",), {"x": 1})])
def test_too_many_values_and_unknown_ones_are_refused(
    values: tuple[typing.Any, ...], named: dict[str, typing.Any]
) -> None:
    with pytest.raises(TypeError):
        Ours(*values, **named)


def test_it_does_not_change() -> None:
    with pytest.raises(AttributeError):
        Ours("a").size = 1  # type: ignore[misc]
