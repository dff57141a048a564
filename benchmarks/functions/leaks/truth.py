"""KiB of resident memory that each call keeps, by a plain loop. Usage: truth.py FOLDER, with the Python that runs it."""

import os
import pathlib
import re
import subprocess
import sys

ONE = """
import sys; sys.path.insert(0, '.')
import app
def rss():
    return int(open('/proc/self/statm').read().split()[1]) * 4
for _ in range(260): app.handler({}, None)
start = rss()
for _ in range(200): app.handler({}, None)
print((rss() - start) / 200)
import os; sys.stdout.flush(); os._exit(0)
"""
folder = pathlib.Path(sys.argv[1])
sources = (path.read_text() for ending in ("py", "cpp") for path in folder.rglob(f"*.{ending}"))


def measure(name, **more):
    env = dict(os.environ, LEAK=name, **more)
    return float(subprocess.run([sys.executable, "-c", ONE], cwd=folder, env=env, capture_output=True, text=True, check=True).stdout)


for name in sorted({name for text in sources for name in re.findall(r"(?:#|//) LEAK (\w+)$", text, re.M)}):
    print(f"{name} leak {measure(name):.2f} twin {measure(name, REPAIRED='1'):.2f}", flush=True)
