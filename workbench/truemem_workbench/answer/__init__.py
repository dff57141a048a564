"""`truemem check`: a gate for CI that fails if a function's memory breaks a limit."""
