"""Makes a session from a model of 4 MiB and runs it once."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

SIZE, LAYERS = 256, 16
random = np.random.default_rng(1)
weights = [
    numpy_helper.from_array(random.random((SIZE, SIZE), dtype=np.float32), f"w{number}") for number in range(LAYERS)
]
nodes = [helper.make_node("MatMul", [f"x{number}", f"w{number}"], [f"x{number + 1}"]) for number in range(LAYERS)]
graph = helper.make_graph(
    nodes,
    "layers",
    [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [1, SIZE])],
    [helper.make_tensor_value_info(f"x{LAYERS}", TensorProto.FLOAT, [1, SIZE])],
    weights,
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def handler(event: object, context: object) -> float:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (answer,) = session.run(None, {"x0": np.ones((1, SIZE), dtype=np.float32)})
    return float(answer[0, 0])
