"""In place of the standard module: there is no path to import from. 40 page faults saved."""


class ZipImportError(ImportError):
    """Looked for by name."""


class zipimporter:
    """For nothing."""

    def __init__(self, path: str) -> None:
        raise ZipImportError
