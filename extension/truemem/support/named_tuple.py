"""NamedTuple without `typing` and `collections`, whose imports cost milliseconds of cold start."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - exported
else:
    from _collections import _tuplegetter

    class NamedTuple(tuple):
        """The members are the annotations of the class, in their order; a value there is the default."""

        __slots__ = ()
        _make = classmethod(tuple.__new__)
        """Make one of all values in a tuple, in half the time of a call."""

        def __init_subclass__(cls):
            cls._fields = tuple(cls.__annotations__)
            cls._defaults = {name: vars(cls)[name] for name in cls._fields if name in vars(cls)}
            for index, name in enumerate(cls._fields):
                setattr(cls, name, _tuplegetter(index, None))

        def __new__(cls, *values, **named):
            if named or len(values) != len(cls._fields):
                rest = cls._fields[len(values) :]
                values += tuple([named.pop(name) if name in named else cls._defaults[name] for name in rest])
                if named or len(values) > len(cls._fields):
                    raise TypeError(f"{cls.__name__}: too many values, or unknown ones")
            return tuple.__new__(cls, values)

        def _replace(self, **named):
            values = [named.pop(name, value) for name, value in zip(self._fields, self, strict=True)]
            return type(self)(*values, **named)
