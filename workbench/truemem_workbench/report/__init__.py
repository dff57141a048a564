"""`truemem report`: from the sidecar's lines, wherever they are, to what is to be done."""
