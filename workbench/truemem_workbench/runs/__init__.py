"""A measured run: the function is invoked here or in AWS, in passes, and what it needed and kept is read."""
