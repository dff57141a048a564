"""Container images: from an archive to a root folder in which processes run."""
