"""Shared by all rooms: text from outside, one-line problems, numbers in sentences, exit codes."""
