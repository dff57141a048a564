"""Colours of the pictures, from Okabe and Ito: colour-blind readers can tell them apart, also by lightness in grey."""

MARK, PEAK, CURRENT, QUIET = "#D55E00", "#0072B2", "#111111", "#6b6b6b"
