"""Production's traffic for hours: arrivals, what is counted of them, and the file that survives a crash."""

import os

# With threads of its own, OpenBLAS waits for them forever if another thread forks meanwhile: the local Lambda does,
# while figures are judged. It reads this when numpy is imported.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
