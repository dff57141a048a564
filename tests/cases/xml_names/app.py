"""Reads a catalogue whose elements are named after the parts, and counts them."""

import itertools

from lxml import etree

parser = etree.XMLParser(huge_tree=True)  # else it takes no more than so many names
numbers = itertools.count(1)


def catalogue() -> bytes:
    names = [f"part-{next(numbers):09}-of-the-catalogue-of-spare-parts-and-accessories-of-a-year" for _ in range(140)]
    return f"<parts>{''.join(f'<{name}/>' for name in names)}</parts>".encode()


def handler(event: object, context: object) -> int:
    return len(etree.fromstring(catalogue(), parser))
