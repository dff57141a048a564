"""What tests, benchmarks and faults share: environments with known memory, invented lines, labelled curves."""
