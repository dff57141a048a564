"""States of one generation of processes: runtime, extensions, invocation. They decide which calls a client may make
next."""
