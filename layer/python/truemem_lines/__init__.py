"""Names the line that keeps: which containers get longer over some invocations, and after which line of the user's.

truemem_heap loads it when the sidecar asks (docs/heap.md), and calls it after the answer of each invocation was sent.
First, looks at the objects that the collector knows find the containers that grow steadily: this costs an invocation
nothing. Then, in a few invocations, their lengths are compared at each line of the user's code. tracemalloc is not
used: it takes 3 to 80 times the CPU in code that makes objects, by Python's version and the depth of the stack.

Nothing of it stays when it is over. It uses only the standard library, of Python 3.10 or newer, and runs none of the
function's code: objects are asked by their type's built-in base alone.
"""

from __future__ import annotations

import posix

from .profile import Ask, Profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def begin(
    folder: str,
    asked: str,
    before_ns: Sequence[int],
    in_use: Callable[[], int] | None,
    small: Callable[[], int] | None,
) -> Profile:
    """Begin what was asked for. Raises ValueError, OSError."""
    return Profile(Ask(asked), f"{folder}/.truemem-lines-{posix.getpid()}.json", before_ns, in_use, small)
