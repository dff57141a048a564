"""Coverage-guided: libFuzzer on one of the targets. Not part of the tests: atheris is no dependency of the project.

    python -m venv /tmp/fuzz && /tmp/fuzz/bin/pip install atheris
    PYTHONPATH=extension:. /tmp/fuzz/bin/python tests/fuzz/guided.py TARGET [CORPUS] -max_total_time=600

Every other argument is libFuzzer's own.
"""

import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-untyped]

with atheris.instrument_imports():
    from tests.fuzz import seeds, targets


def main() -> None:
    """Fuzz until something breaks, or the time is over."""
    name, *rest = sys.argv[1:] or [""]
    if name not in targets.TARGETS:
        raise SystemExit(f"{sys.argv[0]}: no target {name!r} (there are: {', '.join(targets.TARGETS)})")
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(seeds.seeds()[name]):
            (Path(folder) / f"{number}").write_bytes(seed)
        atheris.Setup([sys.argv[0], *rest, folder], targets.TARGETS[name])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
