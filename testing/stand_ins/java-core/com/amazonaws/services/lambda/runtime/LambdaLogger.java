package com.amazonaws.services.lambda.runtime;

public interface LambdaLogger {
    void log(String message);

    void log(byte[] message);
}
