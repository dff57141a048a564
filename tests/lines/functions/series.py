"""Counts orders by their attributes, as a metrics SDK does. With the customer's id among them it keeps a series of
1.6 KiB for each; REPAIRED takes the id out."""

import itertools
import os

series: dict[frozenset[tuple[str, str]], list[float]] = {}
customers = itertools.count(1)


def handler(event: object, context: object) -> int:
    customer = next(customers)
    name = "registered" if "REPAIRED" in os.environ else f"customer-{customer:09}"
    buckets = series.setdefault(frozenset({("customer", name)}), [number / 3 for number in range(28)])
    buckets[customer % len(buckets)] += 1
    return customer
