"""Puts into a wheel what a checkout has elsewhere: the sample function, for `truemem demo`, the heap probes, the
pages of `truemem docs`, the layer's zips, the libraries that sample malloc, and AWS's runtime client for Node.js.

`make wheel` builds the zips and these first. Without them the wheel is built all the same, and its commands say what is
missing. All other settings are in pyproject.toml.
"""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

from setuptools import setup
from setuptools.command.build_py import build_py

linked = run_path("workbench/truemem_workbench/support/pages.py")["linked"]
PAGES = [path.relative_to(Path().resolve()) for path in sorted(linked(Path().resolve())) if path.suffix == ".md"]
"""Without their pictures, which a terminal does not show."""
PLACES = (
    {
        path: Path("truemem_workbench", "demo", path)
        for files in (
            "sample_function/*.py",
            "layer/python/**/*.py",
            "layer/truemem/python/*.py",
            "layer/truemem/**/*.cjs",
        )
        for path in sorted(Path().glob(files))
    }
    | {path: Path("truemem_workbench", "support", "pages", path) for path in (*PAGES, Path("mkdocs.yml"))}
    | {
        path: Path("truemem_workbench", "layers", path.name)
        for path in sorted(Path("dist").glob("truemem-layer-*.zip"))
    }
    | {
        path: Path("truemem_workbench", "explain", path.name)
        for path in sorted(Path("dist").glob("malloc_sampler-*.so"))
    }
    | {
        path: Path("truemem_workbench", "local", "configuration", path.relative_to("dist"))
        for path in sorted(filter(Path.is_file, Path("dist").glob("aws-lambda-ric/**/*")))
    }
)
"""Where each file is in the wheel."""


class WithPlaces(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for path, place in PLACES.items():
            target = Path(self.build_lib, place)
            self.mkpath(str(target.parent))
            self.copy_file(str(path), str(target))

    def get_source_files(self) -> list[str]:
        """Also in a source archive, from which a wheel can be made."""
        return [*super().get_source_files(), *map(str, PLACES)]


setup(cmdclass={"build_py": WithPlaces})
