"""The platform's events, and their delivery to the extensions."""
