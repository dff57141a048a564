"""Settles a function's processes here, and reads what they keep."""
