"""Replaces the standard module: mypyc makes a NamedTuple with what it finds here."""

from truemem.support.named_tuple import NamedTuple

_NamedTuple = NamedTuple
NamedTupleMeta = _NamedTupleMeta = type
