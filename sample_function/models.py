"""The models from the command line: into a folder, or into a bucket. The same bytes every time, never committed.

    python models.py make FOLDER
    python models.py upload --bucket BUCKET [--prefix models/] [--count 40]

The function makes by itself what is missing; this does it beforehand, so that it has only to read.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from network import model_name
from onnx_file import model_chunks, model_size
from settings import BadSetting, Settings, read_settings
from store import ModelStore, StoreError

VARIABLES = {
    "count": "MODEL_COUNT",
    "layers": "MODEL_LAYERS",
    "width": "MODEL_WIDTH",
    "bucket": "MODEL_BUCKET",
    "prefix": "MODEL_PREFIX",
}
"""Options, and the function's variable that each stands for: same bounds, same defaults."""


def make(settings: Settings, folder: Path) -> None:
    """Make the missing models in `folder`, one line for each. Raises StoreError."""
    store = ModelStore(folder, limit=sys.maxsize)
    for model in range(settings.model_count):
        name, size = model_name(settings.shape, model), model_size(settings.shape, model)
        if store.find(name, size) is None:
            print(store.add(name, size, model_chunks(settings.shape, model)), flush=True)


def upload(settings: Settings) -> None:
    """Make and upload the models that the bucket lacks, one line for each of all. Raises BucketError, OSError.

    There is one already if an object of that key has the right size. The ETag is not asked: it is an MD5 only
    without KMS, and the key has the model's number and shape.
    """
    from bucket import Bucket

    assert settings.model_bucket is not None
    bucket = Bucket(settings.model_bucket, settings.model_prefix)
    for model in range(settings.model_count):
        name, size = model_name(settings.shape, model), model_size(settings.shape, model)
        there = bucket.size(name) == size
        if not there:
            with tempfile.TemporaryFile() as file:
                for piece in model_chunks(settings.shape, model):
                    file.write(piece)
                file.seek(0)
                bucket.put(name, file)
        done = "there already" if there else f"uploaded, {size / 2**20:.1f} MiB"
        print(f"{model + 1}/{settings.model_count} {bucket.url(name)}: {done}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """The command. Exit codes: 0 done, 1 not done, 2 not understood."""
    parser = _parser()
    given = parser.parse_args(arguments)
    options = {VARIABLES[name]: value for name, value in vars(given).items() if name in VARIABLES and value is not None}
    try:
        # the store is the function's own: without its bound, models may be larger here
        settings = read_settings({**os.environ, **options, "CACHE_SIZE": "", "MODEL_STORE_MIB": "10240"})
        if given.command == "make":
            make(settings, given.folder)
        elif settings.model_bucket is None:
            parser.error("upload: no bucket: add --bucket NAME, or set MODEL_BUCKET")
        else:
            upload(settings)
    except ImportError as error:
        return _failed(f"{error}: pip install -r requirements.txt")
    except BadSetting as error:
        return _failed(f"{error} (the variable, or its option)")
    except (StoreError, RuntimeError) as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(
            f"cannot write to {tempfile.gettempdir()}: {error.strerror or error}: set TMPDIR to another folder"
        )
    return 0


def _failed(words: str) -> int:
    print(f"models.py: {words}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="models.py",
        description="Make the sample function's ONNX models, those that are missing.",
        epilog="Options that are not given come from the function's variables: MODEL_COUNT, MODEL_LAYERS and so on.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    make_command = commands.add_parser("make", help="into a folder")
    make_command.add_argument("folder", type=Path, help="where to put them (241 MiB by default)")
    upload_command = commands.add_parser("upload", help="into an S3 bucket")
    upload_command.add_argument("--bucket", help="MODEL_BUCKET")
    upload_command.add_argument("--prefix", help="MODEL_PREFIX: models/ by default")
    for command in (make_command, upload_command):
        command.add_argument("--count", help="MODEL_COUNT: how many, 40 by default")
        command.add_argument("--layers", help="MODEL_LAYERS: 24 by default")
        command.add_argument("--width", help="MODEL_WIDTH: features of each layer, 256 by default")
    return parser


if __name__ == "__main__":
    sys.exit(main())
