"""Runs a handler under a client like AWS's, in a process of its own, and asks for the lines as the sidecar does.

`python client.py FOLDER OPTIONS`: FOLDER has app.py, OPTIONS are JSON. It prints JSON: see test_python.py.
"""

import gc
import importlib
import json
import os
import sys
import types
from pathlib import Path

FOLDER, OPTIONS = sys.argv[1], json.loads(sys.argv[2])
CLIENT = """
class LambdaRuntimeClient:
    def post_invocation_result(self, invoke_id, result_data, content_type="application/json"):
        SENT.append(result_data)
    def post_invocation_error(self, invoke_id, error_response_data, xray_fault):
        SENT.append(error_response_data)
"""
LOOP = """
def invoke(client, handler, event, context):
    try:
        client.post_invocation_result(context.aws_request_id, json.dumps(handler(event, context)))
    except Exception as error:
        client.post_invocation_error(context.aws_request_id, repr(error), None)
"""


class Context:
    aws_request_id = ""


sent: list[str] = []
module = types.ModuleType("awslambdaric.lambda_runtime_client")
module.__dict__["SENT"] = sent
exec(compile(CLIENT, "/var/runtime/client.py", "exec"), module.__dict__)
sys.modules["awslambdaric"] = types.ModuleType("awslambdaric")
sys.modules[module.__name__] = module
sys.path.insert(0, OPTIONS["layer"])
importlib.import_module("truemem_heap")
sys.path.pop(0)
sys.path.insert(0, FOLDER)
loop: dict[str, object] = {"json": json}
exec(compile(LOOP, "/var/runtime/bootstrap.py", "exec"), loop)
handler = importlib.import_module("app").handler
client, context = module.LambdaRuntimeClient(), Context()
tmp = os.environ["TMPDIR"]
ask, answer = Path(tmp, f".truemem-lines-{os.getpid()}"), Path(tmp, f".truemem-lines-{os.getpid()}.json")
pid = os.getpid()
for number in range(OPTIONS["invocations"]):
    context.aws_request_id = f"{number % 16:x}-{number}"
    if number == OPTIONS["asks"]:
        ask.write_text("")
    if number == OPTIONS["asks"] + 1:
        ask.write_text(OPTIONS["ask"])
    if number == OPTIONS["withdraws"]:
        ask.unlink()
    loop["invoke"](client, handler, {"number": number}, context)  # type: ignore[operator]
    if os.getpid() != pid:
        os._exit(0)
monitoring = getattr(sys, "monitoring", None)
tools = [monitoring.get_tool(tool) for tool in range(6)] if monitoring is not None else []
print(
    json.dumps(
        {
            "answer": json.loads(answer.read_text()) if answer.exists() else None,
            "mode": answer.stat().st_mode & 0o777 if answer.exists() else None,
            "files": sorted(path.name.replace(str(pid), "PID") for path in Path(tmp).iterdir()),
            "sent": sent,
            "traces": sys.gettrace() is not None or any(tools),
            "loaded": "truemem_lines" in sys.modules,
            "collects": gc.isenabled(),
        }
    )
)
sys.stdout.flush()
os._exit(0)
