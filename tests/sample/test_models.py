"""The models: the same bytes every time, whole or not there, made only when missing."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import onnx
import pytest
from models import build_model, main, make_missing, missing_models, model_path, write_model

SAMPLE = Path(__file__).parents[2] / "sample_function"


def test_a_model_is_the_same_bytes_every_time_and_no_two_are_alike(model_dir: Path) -> None:
    assert build_model(7) == model_path(model_dir, 7).read_bytes()
    assert build_model(7) != build_model(8)


def test_a_model_is_24_layers_and_about_6_mib() -> None:
    content = build_model(0)
    model = onnx.load_from_string(content)

    onnx.checker.check_model(model, full_check=True)
    assert Counter(node.op_type for node in model.graph.node) == {"MatMul": 24, "Add": 24, "Relu": 24}
    assert 6.0 < len(content) / 2**20 < 6.1


def test_only_missing_models_are_made(model_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = model_path(model_dir, 0).stat()
    for model in (3, 39):
        model_path(model_dir, model).unlink()
    assert missing_models(model_dir) == [3, 39]

    assert main([str(model_dir)]) == 0

    made = [str(model_path(model_dir, model)) for model in (3, 39)]
    assert capsys.readouterr().out.splitlines() == made
    assert missing_models(model_dir) == []
    assert model_path(model_dir, 0).stat().st_mtime_ns == kept.st_mtime_ns


def test_a_model_that_cannot_be_finished_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_model(tmp_path, 1)

    assert list(tmp_path.iterdir()) == []


def test_models_can_be_read_by_the_user_the_function_runs_as(model_dir: Path) -> None:
    assert model_path(model_dir, 0).stat().st_mode & 0o777 == 0o644


def test_the_command_says_in_one_line_where_it_cannot_write(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    command = subprocess.run([sys.executable, SAMPLE / "models.py", file], check=False, capture_output=True, text=True)

    assert command.returncode == 1
    assert command.stderr == f"models.py: cannot write to {file}: File exists\n"


def test_the_function_says_what_to_do_when_no_model_can_be_made(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(RuntimeError) as caught:
        make_missing(file)

    assert str(caught.value) == (
        f"no models in {file} and none could be made: models.py: cannot write to {file}: File exists."
        f" Try `python models.py {file}`, or set MODEL_DIR"
    )
