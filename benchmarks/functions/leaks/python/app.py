"""A small shop: one handler. LEAK chooses a habit, REPAIRED=1 its repair."""

import asyncio
import atexit
import contextvars
import functools
import json
import logging
import os
import queue
import threading
import warnings
import weakref

from sdk.hooks import Emitter
from sdk.session import Session
from shop import models, pricing, render, storage
from shop.events import order_placed
from shop.memo import memo
from telemetry import log
from telemetry.registry import Histogram

LEAK = os.environ.get("LEAK", "")
REPAIRED = os.environ.get("REPAIRED") == "1"
logger = logging.getLogger("shop")
calls = 0


# kivy/kivy#886: a history list that keeps each record
AUDIT = []


def order_audit(n):
    lines = [{"sku": f"s{n}-{i}", "price": i * 1.25 + n} for i in range(24)]
    record = json.loads(json.dumps({"order": n, "lines": lines}))  # LEAK order_audit
    AUDIT.append(record)  # LEAK order_audit
    if REPAIRED:
        del AUDIT[:-20]
    return len(lines)


# python/cpython#102618, PyCQA/flake8#1573: a cached method keeps its object
def price_lru(n):
    book = pricing.PriceBook(n)
    if REPAIRED:
        return pricing.PriceBook.total.__wrapped__(book, 3)
    return book.total(3)  # LEAK price_lru


# boto/boto3#2176: short sessions register on an emitter that lives long
EMITTER = Emitter()


def session_hooks(n):
    session = Session(EMITTER, n)
    answer = session.client("orders")
    if REPAIRED:
        session.close()
    return answer


# letta-ai/letta#2823, BerriAI/litellm#5561: a set of tasks, without discard
LOOP = asyncio.new_event_loop()
TASKS = set()


async def push_order(n):
    body = "".join(f"{n}:{i};" for i in range(2600))  # LEAK task_set
    await asyncio.sleep(0)
    return body


async def push_later(n):
    task = asyncio.ensure_future(push_order(n))  # LEAK task_set
    TASKS.add(task)  # LEAK task_set
    if REPAIRED:
        task.add_done_callback(TASKS.discard)
    for _ in range(3):
        await asyncio.sleep(0)


def task_set(n):
    LOOP.run_until_complete(push_later(n))
    return len(TASKS)


# no report: a worker that waits for a job which nobody sends
def wait_for_job(jobs, n):
    rows = [f"row {n}.{i}" for i in range(120)]  # LEAK thread_wait
    jobs.get()
    return rows


def thread_wait(n):
    jobs = queue.Queue()
    thread = threading.Thread(target=wait_for_job, args=(jobs, n), daemon=True)  # LEAK thread_wait
    thread.start()  # LEAK thread_wait
    if REPAIRED:
        jobs.put(None)
        thread.join()
    return thread.name


# pallets-eco/blinker#12: receivers stay in the signal's dictionaries
def signal_receivers(n):
    rows = [(n, i, f"item {n}/{i}") for i in range(48)]  # LEAK signal_receivers

    def mail(order):
        return len(rows), order

    order_placed.connect(mail)  # LEAK signal_receivers
    if REPAIRED:
        order_placed.disconnect(mail)
    return len(rows)


# schematics/schematics#501: each new model class is registered on its base
def model_classes(n):
    name = f"Order{n % 4}" if REPAIRED else f"Order{n}"
    model = models.create_model(name, [f"field_{i}" for i in range(12)])
    return model.__name__


# python/mypy#4807: a cache of errors keeps their tracebacks
def failed_tracebacks(n):
    if n % 2:
        return storage.stat_cached(f"/none/{n}", n, REPAIRED)
    return storage.stat_cached("/tmp", n, REPAIRED)


# KLR-Pattern/pydantic-resolve#216: a context variable that is set, never reset
TRACE = contextvars.ContextVar("trace", default=())


def request_context(n):
    span = {f"attribute.{i}": f"{n}-{i}" * 8 for i in range(32)}  # LEAK request_context
    token = TRACE.set((*TRACE.get(), span))  # LEAK request_context
    if REPAIRED:
        TRACE.reset(token)
    return len(span)


# python/cpython#88846: the value of a weak key refers to its key
class Order:
    def __init__(self, n):
        self.text = bytes([n % 251]) * 18000  # LEAK weak_invoice


INVOICES = weakref.WeakKeyDictionary()


def weak_invoice(n):
    order = Order(n)  # LEAK weak_invoice
    owner = None if REPAIRED else order
    INVOICES[order] = {"owner": owner, "total": n}  # LEAK weak_invoice
    return len(INVOICES)


# ArchiveTeam/wpull#166, lexiforest/curl_cffi#164: timer handles stay
def resend(payload):
    logger.info("resend %d", len(payload))


def retry_timers(n):
    payload = [f"{n}.{i}" for i in range(90)]  # LEAK retry_timers
    timer = LOOP.call_later(3600, resend, payload)  # LEAK retry_timers
    if REPAIRED:
        timer.cancel()
    LOOP.run_until_complete(asyncio.sleep(0))
    return len(payload)


# ponty/EasyProcess#1, DataDog/dd-trace-py#2409: exit handlers of dead objects
class Exporter:
    def __init__(self, n):
        self.buffer = bytearray(44000)  # LEAK exit_hooks
        self.buffer[:4] = n.to_bytes(4, "big")
        atexit.register(self.close)  # LEAK exit_hooks

    def close(self):
        self.buffer = b""


def exit_hooks(n):
    exporter = Exporter(n)  # LEAK exit_hooks
    if REPAIRED:
        atexit.unregister(exporter.close)
    return len(exporter.buffer)


# python/cpython#97557: each warning with a text of its own is remembered
logging.captureWarnings(True)
logging.getLogger("py.warnings").propagate = False
logging.getLogger("py.warnings").addHandler(logging.NullHandler())


def warn_registry(n):
    detail = "" if REPAIRED else f" {n}: " + ", ".join(f"field{i}={n + i}" for i in range(220))
    warnings.warn("the order has unknown fields" + detail)  # LEAK warn_registry
    return len(detail)


# duckdb/duckdb#22730: a cache without bound, its key has the request in it
@memo
def country(body):
    return {"code": body["country"], "tax": 0.19}


@memo
def quote(body):
    return {f"line {i}": [i, body["weight"] * i] for i in range(40)}  # LEAK quote_memo


def quote_memo(n):
    country({"country": "DE"})
    body = {"weight": 2.5, "request": None if REPAIRED else n}
    return len(quote(body))  # LEAK quote_memo


# prometheus/client_python#937, BerriAI/litellm#12159: a label of many values
LATENCY = Histogram("latency", ["path"])


def request_metrics(n):
    LATENCY.labels("/health").observe(0.001)
    for part in ("cart", "pay"):
        path = f"/order/{'ID' if REPAIRED else n}/{part}"
        LATENCY.labels(path).observe(n / 1000)  # LEAK request_metrics
    return len(LATENCY.children)


HABITS = {
    f.__name__: f
    for f in (
        order_audit, price_lru, session_hooks, task_set, thread_wait, signal_receivers,
        model_classes, failed_tracebacks, request_context, weak_invoice, retry_timers,
        exit_hooks, warn_registry, quote_memo, request_metrics,
    )
}  # fmt: skip
HABITS["null_logger"] = lambda n: log.client_logger(n, REPAIRED)
HABITS["logger_names"] = lambda n: log.order_loggers(n, REPAIRED)
HABITS["page_buffers"] = lambda n: storage.page_buffer(n, REPAIRED)
HABITS["report_db"] = lambda n: storage.report(n, REPAIRED)
HABITS["template_lines"] = lambda n: render.compiled(n, REPAIRED)


@functools.lru_cache(maxsize=32)
def currency(code):
    return {"code": code, "names": [f"{code}-{i}" for i in range(20)]}


def ordinary_work(event, n):
    """What a handler does beside: allocates, frees, fills small caches."""
    currency(f"C{n % 40}")
    text = render.page([f"row {i} of {n}" for i in range(200)])
    copy = json.loads(json.dumps({"event": event, "text": text}))
    logger.info("order %d: %d characters", n, len(copy["text"]))
    return len(text)


def handler(event, context):
    global calls
    calls += 1
    size = ordinary_work(event, calls)
    extra = HABITS[LEAK](calls) if LEAK else None
    return {"size": size, "extra": str(extra)[:80]}
