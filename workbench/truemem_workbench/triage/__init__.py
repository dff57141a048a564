"""What logs prove of functions that run without the sidecar."""
