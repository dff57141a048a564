"""Puts into a wheel what `truemem demo` runs and a checkout has elsewhere: the sample function and the probe.

All other settings are in pyproject.toml.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SAMPLE = [path for folder in ("sample_function", "layer/python") for path in sorted(Path(folder).glob("*.py"))]


class WithSample(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for path in SAMPLE:
            target = Path(self.build_lib, "truemem_workbench", "demo", path)
            self.mkpath(str(target.parent))
            self.copy_file(str(path), str(target))

    def get_source_files(self) -> list[str]:
        """Also in a source archive, from which a wheel can be made."""
        return [*super().get_source_files(), *map(str, SAMPLE)]


setup(cmdclass={"build_py": WithSample})
