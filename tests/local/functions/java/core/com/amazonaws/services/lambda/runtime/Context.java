package com.amazonaws.services.lambda.runtime;

public interface Context {
    String getAwsRequestId();
    String getFunctionName();
    int getMemoryLimitInMB();
    int getRemainingTimeInMillis();
    LambdaLogger getLogger();
}
