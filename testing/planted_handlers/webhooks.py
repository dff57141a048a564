import hashlib
import hmac
import json


class Dispatcher:
    def __init__(self):
        self.routes = {"order.paid": self.paid}

    def dispatch(self, body):
        document = json.loads(body)
        # slot
        return self.routes[document["type"]](document)

    def paid(self, document):
        # slot
        return {"seen": document["id"]}


dispatcher = Dispatcher()


def handler(event, context):
    body = json.dumps({"type": "order.paid", "id": context.aws_request_id})
    signed = hmac.new(b"key", body.encode(), hashlib.sha256).hexdigest()
    return {**dispatcher.dispatch(body), "signed": signed}
