"""Opens a raster, reads its overview, and closes it."""

import pathlib
import tempfile

import numpy as np
import rasterio
from rasterio.transform import from_origin

place = pathlib.Path(tempfile.gettempdir()) / "raster.tif"
pixels = np.random.default_rng(1).integers(0, 255, (512, 512), dtype=np.uint8)
with rasterio.open(
    place,
    "w",
    driver="GTiff",
    width=512,
    height=512,
    count=1,
    dtype="uint8",
    crs="EPSG:32633",
    transform=from_origin(500_000, 5_000_000, 10, 10),
    tiled=True,
    blockxsize=256,
    blockysize=256,
    compress="deflate",
) as raster:
    raster.write(pixels, 1)


def handler(event: object, context: object) -> float:
    with rasterio.open(place) as raster:
        return float(raster.read(1, out_shape=(64, 64)).mean())
