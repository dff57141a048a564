"""A model as an ONNX file, written without the `onnx` package and one layer at a time.

Why not with `onnx`: it is a fifth of what the function's package would weigh, importing it takes tens of MiB of the
memory that this function is there to show, and it builds the whole model in memory, several times over. What a plain
chain of layers needs of protobuf is below: two wire types and five messages. The tests compare the bytes with those
of `onnx.helper`, and have `onnx.checker` read them.

Field numbers are those of onnx.proto (ModelProto, GraphProto, NodeProto, TensorProto, ValueInfoProto); the encoding
is protobuf's wire format. Fields are in order of their numbers, as protobuf's own serialiser writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from network import Shape, weights

OPSET = 17
IR_VERSION = 10
"""Old enough for every ONNX Runtime of the last years."""

FLOAT = 1
"""TensorProto.FLOAT: float32, little-endian in `raw_data`, as both of Lambda's architectures hold it."""

VARINT = 0
BYTES = 2


class Layout(NamedTuple):
    """A model's file without its weights. The length of everything is known from the shape alone."""

    before: bytes
    tensors: list[tuple[bytes, bytes]]
    """What stands in front of each layer's matrix and bias."""
    after: bytes


def model_size(shape: Shape, model: int) -> int:
    """Bytes of the model's file, without making it."""
    before, tensors, after = _layout(shape, model)
    return len(before) + sum(map(len, (head for pair in tensors for head in pair))) + shape.weight_bytes + len(after)


def model_chunks(shape: Shape, model: int) -> Iterator[bytes]:
    """The model's file in pieces, the same every time; none is larger than one layer's matrix."""
    before, tensors, after = _layout(shape, model)
    yield before
    for (matrix_head, bias_head), (matrix, bias) in zip(tensors, weights(shape, model), strict=True):
        yield matrix_head
        yield matrix.tobytes()
        yield bias_head
        yield bias.tobytes()
    yield after


def _layout(shape: Shape, model: int) -> Layout:
    width = shape.width
    nodes, tensors = b"", []
    flow = "input"
    for layer in range(shape.layers):
        last = "output" if layer == shape.layers - 1 else f"relu{layer}"
        nodes += _node("MatMul", [flow, f"weight{layer}"], f"matmul{layer}")
        nodes += _node("Add", [f"matmul{layer}", f"bias{layer}"], f"add{layer}")
        nodes += _node("Relu", [f"add{layer}"], last)
        tensors.append((_tensor_head(f"weight{layer}", (width, width)), _tensor_head(f"bias{layer}", (width,))))
        flow = last
    named = nodes + _bytes(2, f"model-{model:02}".encode())
    ends = _bytes(11, _value("input", width)) + _bytes(12, _value("output", width))
    heads = sum(len(head) for pair in tensors for head in pair)
    graph = len(named) + heads + shape.weight_bytes + len(ends)
    return Layout(
        before=_number(1, IR_VERSION) + _key(7, BYTES) + _varint(graph) + named,
        tensors=tensors,
        after=ends + _bytes(8, _bytes(1, b"") + _number(2, OPSET)),
    )


def _node(operator: str, inputs: list[str], output: str) -> bytes:
    """One `GraphProto.node`."""
    names = b"".join(_bytes(1, name.encode()) for name in inputs)
    return _bytes(1, names + _bytes(2, output.encode()) + _bytes(4, operator.encode()))


def _tensor_head(name: str, dimensions: tuple[int, ...]) -> bytes:
    """One `GraphProto.initializer`, up to the values themselves: `raw_data` is its last field."""
    size = 4
    for dimension in dimensions:
        size *= dimension
    fields = b"".join(_number(1, dimension) for dimension in dimensions)
    fields += _number(2, FLOAT) + _bytes(8, name.encode()) + _key(9, BYTES) + _varint(size)
    return _key(5, BYTES) + _varint(len(fields) + size) + fields


def _value(name: str, width: int) -> bytes:
    """A `ValueInfoProto`: float32, as many rows as there are, `width` columns."""
    dimensions = _bytes(1, _bytes(2, b"batch")) + _bytes(1, _number(1, width))
    tensor = _number(1, FLOAT) + _bytes(2, dimensions)
    return _bytes(1, name.encode()) + _bytes(2, _bytes(1, tensor))


def _number(field: int, value: int) -> bytes:
    return _key(field, VARINT) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _key(field, BYTES) + _varint(len(value)) + value


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _varint(value: int) -> bytes:
    """Seven bits a byte, lowest first; the high bit says that more follow."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
