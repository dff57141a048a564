"""In place of importlib._bootstrap_external: imports from the file system, of which there are none.

What is frozen in or built in is imported by importlib._bootstrap alone.
"""


def _install(bootstrap: object) -> None:
    """Called once, by importlib._bootstrap: nothing to add to sys.meta_path."""
