"""One life, or several, of a sidecar in a made-up environment."""

from __future__ import annotations

from . import kernel as k
from .platform import Lambda
from .rolls import Rolls
from .settings import variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PATH = "/opt/extensions/truemem"


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
    for life in range(rolls.pick((1, 1, 2, 3))):
        environ.clear()
        environ.update(settings)
        kernel.fault_rate = rolls.pick((0, 0, 0, 0, 20, 200, 1500))
        kernel.killed_at = kernel.calls + rolls.scale(6000) if rolls.chance(150) else k.NEVER
        kernel.trace.append(f"life {life}")
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
        if kernel.calls >= kernel.most_calls:
            break
        kernel.descriptors = {number: kernel.descriptors[number] for number in (0, 1, 2)}
        kernel.bound.clear()
        kernel.forget()
        world.begin_life()
    for path, file in sorted(kernel.disk.items()):
        kernel.trace.append(f"left {path} {bytes(file.content)!r}")
    return kernel
