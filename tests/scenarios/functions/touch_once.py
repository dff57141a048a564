"""One event of touch.py for a shell: `touch_once.py EVENT` prints the answer.

The truth is what the shell and this process hold together at the peak.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.scenarios.functions.touch import MIB, hold, rss

shell = os.open(f"/proc/{os.getppid()}/statm", os.O_RDONLY)
event = json.loads(sys.argv[1])
before = rss() + rss(shell)
touched = hold(round(event["mib"] * MIB), event["ms"] / 1000) // 1024
print(json.dumps({"before": before, "touched": touched, "truth": before + touched}))
