"""`truemem docs`: the pages of the documentation, as they are installed with the command."""
