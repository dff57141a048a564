"""truemem: an external AWS Lambda extension that measures each invocation's own memory.

Standard library only, and little of it: an import here is memory taken from the function, and cold-start time where
this runs from source. Hence `posix` and `_socket` instead of `os` and `socket`, named tuples of our own
(support/named_tuple), and no `typing`, `enum` or `json` at run time.
"""

VERSION = "0.1.0"
