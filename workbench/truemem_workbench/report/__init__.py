"""`truemem report`: reads the sidecar's lines, and says what to do."""
