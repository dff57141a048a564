"""Builds the layer: one static executable per architecture, and its zip."""
