import re
from xml.etree import ElementTree

WORD = re.compile(r"\w+")


def parsed(text):
    tree = ElementTree.fromstring(text)
    # slot
    return [element.text for element in tree.iter("line")]


def handler(event, context):
    text = "<doc>" + "".join(f"<line>word {n}</line>" for n in range(20)) + "</doc>"
    words = [word for line in parsed(text) for word in WORD.findall(line)]
    # slot
    return {"words": len(words)}
