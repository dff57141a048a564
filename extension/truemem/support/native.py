"""What compiled modules say to their compiler (layer/compiled.py). To Python it is nothing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr  # noqa: PLC0414 - exported
else:

    def mypyc_attr(**_):
        return lambda made: made
