"""`truemem bisect`: which commit of a repository, or which version of a package, made memory grow."""
