"""Shared by tests, benchmarks and faults: environments with known memory, synthetic lines, labelled curves."""
