"""From what was measured and reported to the printed line."""
