package com.amazonaws.services.lambda.runtime;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;

public interface RequestStreamHandler {
    void handleRequest(InputStream input, OutputStream output, Context context) throws IOException;
}
