"""Replaces importlib._bootstrap_external, which imports from the file system. Here nothing is imported from files.

importlib._bootstrap alone imports frozen and built-in modules.
"""


def _install(bootstrap: object) -> None:
    """Called once, by importlib._bootstrap: nothing to add to sys.meta_path."""
