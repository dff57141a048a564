import json


def accepted(record):
    body = json.loads(record["body"])
    if body["n"] == 0:
        pass
        # slot
    return body["n"] % 2 == 0


def handler(event, context):
    records = [{"messageId": str(n), "body": json.dumps({"n": n})} for n in range(10)]
    failed = []
    for record in records:
        if not accepted(record):
            failed.append({"itemIdentifier": record["messageId"]})
            if len(failed) == 1:
                pass
                # slot
    return {"batchItemFailures": failed}
