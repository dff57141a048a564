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


@pytest.mark.parametrize("values", [("a",), ("a", 1, "b"), ("a", 1, "b", 2)])
@pytest.mark.parametrize("named", [{}, {"kind": "b"}, {"name": "a"}, {"x": 1}])
def test_it_is_made_as_the_standard_one(values: tuple[typing.Any, ...], named: dict[str, typing.Any]) -> None:
    try:
        standard = Standard(*values, **named)
    except TypeError:
        with pytest.raises(TypeError):
            Ours(*values, **named)
        return
    ours = Ours(*values, **named)
    assert (ours.name, ours.size, ours.kind) == (standard.name, standard.size, standard.kind)
    assert tuple(ours) == tuple(standard)
    assert tuple(ours._replace(size=7)) == tuple(standard._replace(size=7))
    with pytest.raises(AttributeError):
        ours.size = 1  # type: ignore[misc]
