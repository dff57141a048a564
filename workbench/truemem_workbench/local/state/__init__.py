"""States of one generation of processes. They decide which calls runtime and extensions may make next."""
