"""The platform's events, and their way to the extensions."""
