"""Replaces the standard module: there is no path to import from. It saves 40 page faults."""


class ZipImportError(ImportError):
    """CPython looks it up by name."""


class zipimporter:
    """Never imports anything."""

    def __init__(self, path: str) -> None:
        raise ZipImportError
