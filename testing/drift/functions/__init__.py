"""Functions whose curves are recorded."""
