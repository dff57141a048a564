"""Real processes: how they are started, limited in memory, frozen and killed."""
