"""The 40 models: made on the spot, the same bytes every time, never committed.

    python models.py FOLDER

A command of its own because importing `onnx` takes tens of MiB that the function must not hold.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from settings import MODELS

LAYERS = 24
WIDTH = 256
"""Features in and out of every layer: 24 layers of 256 x 256 float32 weights are 6.0 MiB."""

OPSET = 17
IR_VERSION = 10
"""Old enough for every ONNX Runtime of the last years, so that a newer `onnx` changes nothing here."""


def model_path(folder: Path, model: int) -> Path:
    """Where model `model` lies in `folder`."""
    return folder / f"model-{model:02}.onnx"


def missing_models(folder: Path) -> list[int]:
    """Ids of the models that are not in `folder` yet."""
    return [model for model in range(MODELS) if not model_path(folder, model).exists()]


def build_model(model: int) -> bytes:
    """One serialised model: 24 x (MatMul + Add + Relu), weights drawn from the model's own seed."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(model)
    nodes, weights = [], []
    flow = "input"
    for layer in range(LAYERS):
        last = "output" if layer == LAYERS - 1 else f"relu{layer}"
        # He initialisation: the signal keeps its size through 24 layers of Relu
        matrix = random.standard_normal((WIDTH, WIDTH), dtype=np.float32) * np.float32((2 / WIDTH) ** 0.5)
        weights.append(numpy_helper.from_array(matrix, f"weight{layer}"))
        bias = random.standard_normal(WIDTH, dtype=np.float32) * np.float32(0.01)
        weights.append(numpy_helper.from_array(bias, f"bias{layer}"))
        nodes += [
            helper.make_node("MatMul", [flow, f"weight{layer}"], [f"matmul{layer}"]),
            helper.make_node("Add", [f"matmul{layer}", f"bias{layer}"], [f"add{layer}"]),
            helper.make_node("Relu", [f"add{layer}"], [last]),
        ]
        flow = last
    rows: list[str | int | None] = ["batch", WIDTH]
    graph = helper.make_graph(
        nodes,
        f"model-{model:02}",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, rows)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, rows)],
        weights,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    serialised: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString(
        deterministic=True
    )
    return serialised


def write_model(folder: Path, model: int) -> Path:
    """Make one model's file: whole or not at all, whatever happens meanwhile. Raises OSError."""
    path = model_path(folder, model)
    content = build_model(model)
    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # mkstemp makes it private; under the local Lambda another user reads it
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def make_missing(folder: Path) -> None:
    """Make the missing models in a child process, so that this one never imports `onnx`.

    Raises RuntimeError with the child's last words and the command to run instead.
    """
    if not missing_models(folder):
        return
    command = [sys.executable, str(Path(__file__).resolve()), str(folder)]
    child = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if child.returncode:
        words = child.stderr.strip().splitlines() or [f"exit code {child.returncode}"]
        raise RuntimeError(
            f"no models in {folder} and none could be made: {words[-1]}."
            f" Try `python models.py {folder}`, or set MODEL_DIR"
        )


def main(arguments: list[str] | None = None) -> int:
    """The command: one line for each model made."""
    parser = argparse.ArgumentParser(description="Make the sample function's ONNX models, those that are missing.")
    parser.add_argument("folder", type=Path, help="where to put them (242 MiB in all)")
    folder: Path = parser.parse_args(arguments).folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for model in missing_models(folder):
            print(write_model(folder, model), flush=True)
    except OSError as error:
        print(f"models.py: cannot write to {folder}: {error.strerror or error}", file=sys.stderr)
        return 1
    except ImportError as error:
        print(f"models.py: {error}: pip install -r requirements.txt", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
