package com.amazonaws.services.lambda.runtime;

public interface Context {
    String getAwsRequestId();

    String getLogGroupName();

    String getLogStreamName();

    String getFunctionName();

    String getFunctionVersion();

    String getInvokedFunctionArn();

    CognitoIdentity getIdentity();

    ClientContext getClientContext();

    int getRemainingTimeInMillis();

    int getMemoryLimitInMB();

    LambdaLogger getLogger();
}
