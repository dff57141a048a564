"""States of one generation of processes: runtime, extensions, invocation. They answer what a client may ask next."""
