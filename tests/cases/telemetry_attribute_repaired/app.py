"""Counts each order and its amount, with the kind of customer as an attribute."""

import itertools

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

meter = MeterProvider(metric_readers=[InMemoryMetricReader()]).get_meter("shop")
orders = meter.create_counter("orders")
amounts = meter.create_histogram("amounts")
customers = itertools.count(1)


def handler(event: object, context: object) -> int:
    customer = next(customers)
    attributes = {"customer": "registered"}
    orders.add(1, attributes)
    amounts.record(customer % 100, attributes)
    return customer
