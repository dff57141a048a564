"""The models: the same bytes every time, those that the `onnx` package would have made, a layer at a time."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from models import main
from network import Shape, model_name, weights
from onnx import TensorProto, helper, numpy_helper
from onnx_file import IR_VERSION, OPSET, model_chunks, model_size

from tests.sample.conftest import SAMPLE


def made(shape: Shape, model: int) -> bytes:
    return b"".join(model_chunks(shape, model))


def made_by_onnx(shape: Shape, model: int) -> bytes:
    """The same model by `onnx.helper`."""
    nodes, tensors = [], []
    flow = "input"
    for layer, (matrix, bias) in enumerate(weights(shape, model)):
        last = "output" if layer == shape.layers - 1 else f"relu{layer}"
        tensors += [numpy_helper.from_array(matrix, f"weight{layer}"), numpy_helper.from_array(bias, f"bias{layer}")]
        nodes += [
            helper.make_node("MatMul", [flow, f"weight{layer}"], [f"matmul{layer}"]),
            helper.make_node("Add", [f"matmul{layer}", f"bias{layer}"], [f"add{layer}"]),
            helper.make_node("Relu", [f"add{layer}"], [last]),
        ]
        flow = last
    rows: list[str | int | None] = ["batch", shape.width]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, rows) for name in ("input", "output")]
    graph = helper.make_graph(nodes, f"model-{model:02}", ends[:1], ends[1:], tensors)
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    serialised: bytes = whole.SerializeToString(deterministic=True)
    return serialised


@settings(max_examples=40, deadline=None)
@given(layers=st.integers(1, 12), width=st.integers(16, 150), model=st.integers(0, 999))
@example(layers=Shape().layers, width=Shape().width, model=7)
def test_a_model_is_what_onnx_itself_would_write(layers: int, width: int, model: int) -> None:
    shape = Shape(layers, width)
    content = made(shape, model)
    assert content == made_by_onnx(shape, model)
    assert len(content) == model_size(shape, model)


def test_only_missing_models_are_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--count", "5", "--layers", "2", "--width", "16"]
    assert main(["make", str(tmp_path), *shape]) == 0
    files = [tmp_path / model_name(Shape(2, 16), model) for model in range(5)]
    assert capsys.readouterr().out.splitlines() == [str(file) for file in files]
    kept = files[0].stat().st_ino
    files[3].unlink()
    files[4].write_bytes(b"half")

    assert main(["make", str(tmp_path), *shape]) == 0

    assert capsys.readouterr().out.splitlines() == [str(file) for file in files[3:]]
    assert sorted(tmp_path.iterdir()) == files
    assert files[0].stat().st_ino == kept


def test_the_command_says_in_one_line_where_it_cannot_write(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    arguments = [sys.executable, str(SAMPLE / "models.py"), "make", str(file)]
    command = subprocess.run(arguments, check=False, capture_output=True, text=True)

    assert command.returncode == 1
    assert command.stderr == (
        f"models.py: cannot write to {file}: File exists: set MODEL_DIR to a folder that can be written to\n"
    )
