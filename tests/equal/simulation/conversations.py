"""One life, or several, of a sidecar in a made-up environment."""

from __future__ import annotations

from . import kernel as k
from .platform import Lambda
from .rolls import Rolls, mangled
from .settings import variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PATH = "/opt/extensions/truemem"


def _spoil(rolls: Rolls, disk: dict[str, k.DiskFile]) -> None:
    """What is in /tmp others may write to, or put something else in its place."""
    for path in sorted(disk):
        if rolls.chance(950):
            continue
        kind = rolls.below(5)
        if kind == 0:
            disk[path] = k.DiskFile(0o120777, b"/etc/passwd")
        elif kind == 1:
            disk[path].owner = 1000
        elif kind == 2:
            disk[path].names = 2
        else:
            disk[path].content = bytearray(mangled(rolls, bytes(disk[path].content)))


def converse(seed: int, main: Callable[[str], None], environ: dict[bytes, bytes]) -> k.Kernel:
    """Play the conversation of this seed with the sidecar that begins at `main`: the kernel, and what it has noted."""
    rolls = Rolls(seed)
    is_managed = rolls.chance(120)
    memory_mib = rolls.pick((128, 128, 192, 512, 1769, 10_240))
    kernel = k.Kernel(rolls, None)
    k.begin(kernel)
    kernel.world = world = Lambda(rolls, memory_mib, is_managed, wants_exact=rolls.chance(450))
    kernel.stamps = rolls.chance(900)
    kernel.is_slow = rolls.chance(100)
    kernel.most_descriptors = rolls.pick((1024, 1024, 1024, 30))
    settings = variables(rolls, memory_mib, is_managed)
    lives = rolls.pick((1, 1, 2, 3))
    while lives:
        environ.clear()
        environ.update(settings)
        kernel.fault_rate = rolls.pick((0, 0, 0, 0, 20, 200, 1500))
        kernel.killed_at = kernel.calls + rolls.below(2000) if rolls.chance(200) else k.NEVER
        kernel.trace.append("begins")
        try:
            main(PATH)
            ending = "returns"
        except k.Over as over:
            ending = f"{over}"
        except SystemExit as left:
            ending = f"exits {left.code}"
        except BaseException as error:
            ending = f"raises {type(error).__name__}"
        kernel.trace.append(f"ends: {ending}")
        kernel.say("end", ending.encode())
        lives = max(lives - 1, ending == "killed")  # what it has left is found by the next
        if kernel.calls >= kernel.most_calls:
            break
        _spoil(rolls, kernel.disk)
        kernel.descriptors = {number: kernel.descriptors[number] for number in (0, 1, 2)}
        kernel.bound.clear()
        kernel.forget()
        world.begin_life()
    for path, file in sorted(kernel.disk.items()):
        kernel.trace.append(f"left {path} {bytes(file.content)!r}")
    return kernel
