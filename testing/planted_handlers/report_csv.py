import csv
import io
from collections import defaultdict


def rows():
    for number in range(50):
        yield {"customer": f"c{number % 7}", "amount": number}


def summed():
    sums = defaultdict(int)
    for row in rows():
        sums[row["customer"]] += row["amount"]
    # slot
    return sums


def handler(event, context):
    text = io.StringIO()
    writer = csv.writer(text)
    for customer, amount in summed().items():
        writer.writerow([customer, amount])
    # slot
    return text.getvalue()
