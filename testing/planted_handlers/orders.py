import json

TAXES = {"DE": 0.19, "FR": 0.2}


def total(order):
    amount = sum(item["price"] * item["count"] for item in order["items"])
    # slot
    return round(amount * (1 + TAXES[order["country"]]), 2)


def handler(event, context):
    order = {"items": [{"price": 3.5, "count": n} for n in range(5)], "country": "DE"}
    # slot
    return json.loads(json.dumps({"total": total(order)}))
