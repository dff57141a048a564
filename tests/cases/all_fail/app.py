"""Expects records of a queue, and gets an event without."""


def handler(event: dict[str, list[dict[str, str]]], context: object) -> list[str]:
    return [record["body"] for record in event["Records"]]
