"""Words for the layer's tests."""

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from testing.environment import Environment, Record

ROOT = Path(__file__).parents[2]
MACHINES = {"x86_64": "EM_X86_64", "arm64": "EM_AARCH64"}


def machine(path: Path) -> str | None:
    """e_machine of an ELF file (elf(5)); None for any other."""
    with path.open("rb") as file, suppress(ELFError):
        return str(ELFFile(file)["e_machine"])
    return None


@dataclass(frozen=True)
class Layer:
    archive: Path
    folder: Path
    """Its content, where Lambda has /opt."""

    @property
    def executable(self) -> Path:
        return self.folder / "extensions" / "truemem"

    @property
    def wrapper(self) -> Path:
        return self.folder / "truemem" / "exact"


def script(folder: Path, text: str, name: str = "truemem", shell: str = "sh") -> Path:
    """A program that is a shell script, such as an extension that starts the executable in some way."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/{shell}\n{text}\n")
    path.chmod(0o755)
    return path


RUNTIME_MIB = 2


def in_an_empty_root(layer: Layer, root: Path) -> str:
    """The command that runs the executable where there is nothing else: `root` is made, with /opt and /proc."""
    (root / "proc").mkdir(parents=True)
    shutil.copytree(layer.folder, root / "opt")
    return f"mount --rbind /proc {root}/proc && exec /usr/sbin/chroot {root} /opt/extensions/truemem"


def measured(environment: Environment, count: int = 3) -> list[Record]:
    """A few invocations, all of which must have been measured."""
    with environment:
        answers = [environment.invoke(mib=20 * number, ms=30) for number in range(count)]
        records = environment.records()
        log = environment.log()
    assert [record.requestId for record in records] == [made.request_id for made in environment.invocations], log
    for record, answer in zip(records, answers, strict=True):
        assert record.PeakRSS is not None, log
        # What the runtime takes for its own first responses the function does not count.
        assert record.peakLower - RUNTIME_MIB <= answer["truth"] / 1024, (record, answer)
        assert record.peakUpper is None or answer["truth"] / 1024 <= record.peakUpper + 0.5
    return records
