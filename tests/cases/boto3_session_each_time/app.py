"""Makes a session and a client, and asks nothing of AWS."""

import boto3


def handler(event: object, context: object) -> str:
    client = boto3.Session(region_name="eu-west-1").client("sqs")
    name = client.meta.service_model.service_name
    client.close()
    return name
