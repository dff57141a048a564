import base64
import json
import time

KEYS = {}


def key(name):
    if name not in KEYS:
        KEYS[name] = base64.b64encode(name.encode() * 10)
    return KEYS[name]


def verified(token):
    claims = json.loads(base64.b64decode(token))
    # slot
    return claims["exp"] > time.time() and key(claims["kid"])


def handler(event, context):
    token = base64.b64encode(json.dumps({"exp": time.time() + 60, "kid": "one"}).encode())
    if not verified(token):
        return {"status": 401}
    # slot
    return {"status": 200}
