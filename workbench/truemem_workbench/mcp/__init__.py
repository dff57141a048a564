"""`truemem mcp`: the commands as tools of an assistant, over the Model Context Protocol."""
