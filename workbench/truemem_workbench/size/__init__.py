"""`truemem size`: which memory size is cheap, fast and safe, from invocations at each of several sizes."""
