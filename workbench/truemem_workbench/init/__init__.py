"""What `truemem init` does: finds functions, and writes and runs their gate."""
