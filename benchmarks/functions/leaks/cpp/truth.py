"""KiB of resident memory that each call keeps, by a plain loop. Usage: truth.py [name ...]"""

import os
import pathlib
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
here = pathlib.Path(__file__).parent


def measure(name, **more):
    env = dict(os.environ, LEAK=name, **more)
    return float(subprocess.run([sys.executable, "-c", ONE], cwd=here, env=env, capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    sys.path.insert(0, str(here))
    import app
    names = sys.argv[1:] or sorted(n for n in dir(app.shopcore) if n[0] != '_' and n != 'ordinary')
    for name in names:
        print(f"{name} leak {measure(name):.2f} twin {measure(name, REPAIRED='1'):.2f}", flush=True)
