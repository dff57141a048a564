"""`truemem metrics`: the memory metrics of a function over time."""
