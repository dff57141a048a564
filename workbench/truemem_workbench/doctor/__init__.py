"""`truemem doctor`: does the sidecar work there, and if not, what to do."""
