"""Draws a chart, and leaves the figure with pyplot."""

import io

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt


def handler(event: object, context: object) -> int:
    figure, axes = plt.subplots(figsize=(2, 2))
    axes.plot([1, 2, 3])
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return len(picture.getvalue())
