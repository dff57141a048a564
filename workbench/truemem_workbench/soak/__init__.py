"""Production's traffic for hours: arrivals, what is counted of them, and the file that survives a crash."""
