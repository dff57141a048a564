"""Public reports of memory that grows, as programs: reads a case, makes it ready to run, measures it."""
