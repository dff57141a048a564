"""Both sides of a proxy, by hand: a client and a Runtime API that follow a script, byte by byte."""
