"""Which JSON objects are events of AWS's own sources, by the members that each always has. Pure.

From AWS's page of each source, as `sam local generate-event` has them too
(https://docs.aws.amazon.com/lambda/latest/dg/lambda-services.html).
"""

from __future__ import annotations

from collections.abc import Mapping

SHAPES: dict[str, frozenset[str]] = {
    name: frozenset(members.split())
    for name, members in {
        "API Gateway, or a load balancer": "httpMethod path requestContext",
        "HTTP API, or a function URL": "version rawPath headers requestContext",
        "WebSocket API": "requestContext isBase64Encoded",
        "Authorizer of an API": "type methodArn",
        "Authorizer of an HTTP API": "type routeArn",
        "VPC Lattice": "method path headers requestContext",
        "VPC Lattice, first version": "method raw_path headers",
        "EventBridge, or a schedule": "source detail-type detail",
        "CloudWatch Logs": "awslogs",
        "CloudWatch alarm": "source alarmArn alarmData",
        "Kafka": "eventSource records",
        "Amazon MQ": "eventSource eventSourceArn messages",
        "RabbitMQ": "eventSource rmqMessagesByQueue",
        "DocumentDB": "eventSourceArn events",
        "Firehose, or Kinesis analytics": "invocationId records",
        "S3 Batch Operations": "invocationSchemaVersion tasks job",
        "S3 Object Lambda": "getObjectContext userRequest",
        "Cognito": "triggerSource userPoolId request",
        "Cognito Sync": "eventType identityPoolId",
        "CloudFormation": "RequestType ResponseURL StackId",
        "CodePipeline": "CodePipeline.job",
        "Config": "invokingEvent configRuleName",
        "Connect": "Name Details",
        "Lex": "sessionState bot",
        "Lex, first version": "currentIntent bot",
        "Bedrock": "messageVersion agent",
        "AppSync": "info arguments identity",
        "AppSync, by an authorizer": "authorizationToken requestContext",
        "Amplify": "typeName fieldName arguments",
        "CodeDeploy": "DeploymentId LifecycleEventHookExecutionId",
        "CloudWatch dashboard": "widgetContext",
        "IoT button": "serialNumber clickType",
        "Alexa": "version session request",
        "Secrets Manager": "Step SecretId ClientRequestToken",
        "Transfer Family": "token workflowId executionDetails",
        "SageMaker": "version labelingJobArn",
        "WorkMail": "summaryVersion envelope",
        "A destination": "version requestContext requestPayload",
    }.items()
}
"""Names of sources, with members of the event. SQS, SNS, S3, Kinesis, DynamoDB, SES, CodeCommit and CloudFront have
`Records`, each of its source."""


def is_event(found: Mapping[str, object]) -> bool:
    """Does it have the shape of a known source's event?"""
    match found.get("Records"):
        case [{"eventSource": str()} | {"EventSource": str()} | {"cf": {}}, *_]:
            return True
    return any(members <= found.keys() for members in SHAPES.values())
