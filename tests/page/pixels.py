"""Where a picture has a colour."""

from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np


def pixels(path: Path, colour: str) -> tuple[Any, Any]:
    """Rows, from the top, and columns of the pixels that have that colour."""
    image = np.rint(matplotlib.image.imread(path)[:, :, :3] * 255)
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    rows, columns = np.nonzero(np.all(np.abs(image - wanted) <= 2, axis=2))
    return rows, columns
