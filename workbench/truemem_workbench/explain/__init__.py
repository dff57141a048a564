"""Names the lines that hold what grew: the function runs again, under a tracer."""
