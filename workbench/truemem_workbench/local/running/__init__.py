"""The local Lambda as a whole: server, session, and the scenarios."""
