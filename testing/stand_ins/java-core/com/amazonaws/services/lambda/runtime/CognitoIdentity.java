package com.amazonaws.services.lambda.runtime;

public interface CognitoIdentity {}
