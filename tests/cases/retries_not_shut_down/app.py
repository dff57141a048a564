"""Makes an executor that tries again, has it do something, and leaves it."""

from more_executors import Executors


def handler(event: object, context: object) -> int:
    executor = Executors.thread_pool(max_workers=2).with_retry()
    return executor.submit(sum, range(1000)).result()
