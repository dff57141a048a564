"""Makes a session, and signs a URL, for which botocore resolves the endpoint."""

import boto3


def handler(event: object, context: object) -> str:
    client = boto3.Session(region_name="eu-west-1").client("s3")
    return client.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "key"})
