"""Keeps the botocore session for as long as its credentials last, and makes a new boto3 session when it needs one."""

import boto3
import botocore.session

kept = botocore.session.Session()


def handler(event: object, context: object) -> list[str]:
    return boto3.Session(region_name="eu-west-1", botocore_session=kept).get_available_regions("s3")[:1]
