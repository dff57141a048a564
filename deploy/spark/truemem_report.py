"""The file to submit to Glue, EMR Serverless or any Spark: `truemem report` of files in S3 (README.md beside it).

    spark-submit --py-files truemem.zip truemem_report.py s3://BUCKET/PREFIX --output s3://BUCKET/report.json

Its arguments are those of `truemem report`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

IN_ONE = "--report"
"""Glue's argument whose value is the command line: there each argument has a name, and Glue adds some of its own."""


def arguments(given: Sequence[str]) -> list[str]:
    """The arguments of `truemem report`, from those of the script."""
    line = shlex.split(given[given.index(IN_ONE) + 1]) if IN_ONE in given[:-1] else given
    return ["report", "--engine", "spark", *line]


def run() -> None:
    """Make the report. Raises SystemExit if it fails: Glue takes any exit for a failure, also that with 0."""
    from truemem_workbench.commands.__main__ import main

    sys.argv = ["truemem", *arguments(sys.argv[1:])]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise


if __name__ == "__main__":
    run()
