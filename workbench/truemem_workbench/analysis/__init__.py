"""What records mean: leak or not, hoarding or not, what a log says of the sidecar. Pure."""
