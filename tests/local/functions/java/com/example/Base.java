package com.example;

import com.amazonaws.services.lambda.runtime.Context;
import com.amazonaws.services.lambda.runtime.RequestHandler;

abstract class Base<I, O> implements RequestHandler<I, O> {
    abstract O of(I input);

    @Override
    public O handleRequest(I input, Context context) {
        return of(input);
    }
}
