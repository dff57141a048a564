"""docs/alarm-to-line.md: its leak is found."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from tests.attach.pages import DOCS
from tests.check.conftest import FUNCTIONS, Check

PAGE = "alarm-to-line.md"


def test_the_leak_of_the_sample_is_found_at_the_line_of_the_page(invoke_check: Check, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text("".join(json.dumps({"model": model}) + "\n" for model in range(4)))
    with tempfile.TemporaryDirectory(prefix="truemem-test-") as models:
        Path(models).chmod(0o777)
        small = {"MODEL_DIR": models, "MODEL_COUNT": 4, "CACHE_SIZE": 4, "MODEL_LAYERS": 2, "INTRA_OP_THREADS": 1}
        variables = [option for name, value in small.items() for option in ("--env", f"{name}={value}")]
        options = ("--events", events, "--invocations", 400, "--max-drift", 4, "--explain", "--json")
        done = invoke_check(f"{FUNCTIONS / 'leaky_sample.py'}:handler", *options, *variables)
    first = json.loads(done.stdout)["explanation"]["lines"][0]
    assert done.exit_code == 1
    assert first["source"] in (DOCS / PAGE).read_text()
    assert f"leaky_sample.py:{first['line']} " in (DOCS / PAGE).read_text()
    assert first["perInvocationKiB"] == pytest.approx(8, rel=0.1)
