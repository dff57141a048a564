"""`truemem lines`: the lines of code that keep memory, as profiled in Lambda."""
