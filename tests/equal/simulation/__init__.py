"""A made-up Lambda for the sidecar, in one process and in no time: all of it follows from a seed.

Plain Python of the few modules that the executable has: it is linked into executables, beside the sidecar, interpreted
and compiled.
"""
