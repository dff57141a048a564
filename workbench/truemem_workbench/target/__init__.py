"""What is run, and with which events: a function of a file or a template, and what it is invoked with."""
