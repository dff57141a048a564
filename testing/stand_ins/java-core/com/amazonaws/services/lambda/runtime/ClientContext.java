package com.amazonaws.services.lambda.runtime;

public interface ClientContext {}
