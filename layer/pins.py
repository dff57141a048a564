"""Pins everything in the executable by hash. (The compiler: toolchain.lock.)"""

from __future__ import annotations

PYTHON = "3.13.5"

SOURCE_SHA256 = "93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640"
"""Hash of Python-3.13.5.tar.xz."""

RELEASE = f"https://www.python.org/ftp/python/{PYTHON}/Python-{PYTHON}.tar.xz"

DEBIAN_POOL = f"pool/main/p/python3.13/python3.13_{PYTHON}.orig.tar.xz"
"""Place of CPython's source in Debian's archive, below any of its mirrors."""

MUSL = "1.2.5"
"""Version of the C library that the pinned compiler links in."""

LIBCXX = "20.1"
"""Version of the C++ library in that compiler."""

AWS_LAMBDA_CPP, CURL = "0.2.8", "7.83.1"
"""Versions that aws-lambda-ric brings with it, as its THIRD-PARTY-LICENSES states them."""

GLIBC = "2.17"
"""Oldest version of glibc with which the sampler of malloc and the client for Node.js can be loaded: the first one for
arm64."""

SOURCE_DATE_EPOCH = "1749600000"
"""Date of all files in the build: CPython 3.13.5's release day."""

ARCHITECTURES = {"x86_64": "x86_64", "arm64": "aarch64"}
"""Architectures: Lambda's names, and the compiler's."""
