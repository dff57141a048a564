"""An execution environment from init to shutdown, one request at a time."""
