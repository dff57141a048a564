"""What every room may use: JSON, the log, clocks, CPU budget, private files. It knows nothing of Lambda or memory."""
