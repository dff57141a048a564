"""truemem: an external AWS Lambda extension that measures each invocation's own memory.

Standard library only, and little of it: an import here is cold-start time and memory taken from the
function. Hence `posix` and `_socket` instead of `os` and `socket`, named tuples of our own
(support/named_tuple), and no `typing`, `enum` or `json` at run time.
"""

VERSION = "0.1.0"
