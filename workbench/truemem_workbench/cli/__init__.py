"""The command `truemem`."""
