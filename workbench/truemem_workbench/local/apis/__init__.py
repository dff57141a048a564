"""The HTTP APIs that runtime, extensions and callers talk to."""
