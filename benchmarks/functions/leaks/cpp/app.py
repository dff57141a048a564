"""A handler whose work is done in C++ (shopcore). LEAK chooses a habit, REPAIRED=1 its repair."""

import json
import logging
import os

import shopcore

LEAK = os.environ.get("LEAK", "")
logger = logging.getLogger("shop")
calls = 0


def view(n):
    data = bytearray(11000)  # LEAK buffer_view
    data[0] = n % 256
    return shopcore.buffer_view(data)  # LEAK buffer_view


def handler(event, context):
    global calls
    calls += 1
    size = shopcore.ordinary(calls)
    logger.info("order %d: %s", calls, json.dumps({"event": event, "size": size}))
    if LEAK == "buffer_view":
        answer = view(calls)
    elif LEAK:
        answer = getattr(shopcore, LEAK)(calls)
    else:
        answer = None
    return {"size": size, "answer": str(answer)[:40]}
