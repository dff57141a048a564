"""A local Lambda as a whole: server, session, and the scenarios played on it."""
