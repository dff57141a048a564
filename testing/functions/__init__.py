"""Functions that take known amounts of memory, run under the local Lambda."""
