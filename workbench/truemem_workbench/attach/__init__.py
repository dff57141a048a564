"""Attaches the layer to functions, and takes it off again."""
