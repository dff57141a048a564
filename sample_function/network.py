"""The network of every model: layers of MatMul, Add and Relu, as wide as they are high, weights from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class Shape:
    """How large each model is: `layers` x (`width` x `width` weights and `width` biases), float32."""

    layers: int = 24
    width: int = 256
    """Features in and out of every layer: 24 layers of 256 x 256 weights are 6.0 MiB."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights and biases: a model's size in memory, and nearly that of its file."""
        return self.layers * (self.width + 1) * self.width * 4


def model_name(shape: Shape, model: int) -> str:
    """The file's name, and the end of its key in a bucket. It has the shape: other settings, other files."""
    return f"model-{model:02}-{shape.layers}x{shape.width}.onnx"


def weights(shape: Shape, model: int) -> Iterator[tuple[Floats, Floats]]:
    """Matrix (width, width) and bias (width,) of each layer, drawn from the model's own seed: one layer at a time."""
    random = np.random.default_rng(model)
    for _ in range(shape.layers):
        # He initialisation: the signal keeps its size through all layers of Relu
        matrix = random.standard_normal((shape.width, shape.width), dtype=np.float32)
        matrix *= np.float32((2 / shape.width) ** 0.5)
        bias = random.standard_normal(shape.width, dtype=np.float32)
        bias *= np.float32(0.01)
        yield matrix, bias
