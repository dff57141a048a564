"""Python imports it when it starts: truemem_preload says what for."""

import truemem_preload  # type: ignore[import-not-found]

truemem_preload.run_next(__name__)
