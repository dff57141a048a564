"""Bills of materials (CycloneDX 1.6) of the layer's zips and of the wheel. The same input gives the same bytes."""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import distribution, metadata
from pathlib import Path
from typing import cast

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from truemem import VERSION

from layer.compiled import MYPY
from layer.node_client import PACKAGES, locked
from layer.pins import AWS_LAMBDA_CPP, CURL, LIBCXX, MUSL, PYTHON, RELEASE, SOURCE_SHA256
from layer.toolchain import LOCK

LICENCE = "Apache-2.0"
UPLOT = Path(__file__).parents[1] / "workbench" / "truemem_workbench" / "page" / "assets" / "uplot.js"
"""uPlot as npm has it, with its licence beside it: it draws the curves of the page."""
MOST_NAME_CHARS = 60
"""Longest licence in a package's metadata that is a name, and not the whole text."""


def named(requirements: Iterable[str]) -> set[str]:
    """The distributions that are required on this machine, without any extra."""
    parsed = [Requirement(each) for each in requirements]
    return {canonicalize_name(each.name) for each in parsed if not each.marker or each.marker.evaluate({"extra": ""})}


def requirements_of(names: Iterable[str]) -> dict[str, set[str]]:
    """For each of these distributions, and each that pip would install with them: what it requires itself.

    They must be installed here, as they are in `.venv`: from requirements.lock.
    """
    found: dict[str, set[str]] = {}
    due = [*names]
    while due:
        if (name := due.pop()) not in found:
            found[name] = named(distribution(name).requires or ())
            due += found[name]
    return found


def of_layer(path: Path, epoch: int) -> str:
    """Bill of materials of one architecture's zip. `epoch`: the moment that the document names, in seconds."""
    linked = _linked()
    bom = _bom(layer := _file(path, ComponentType.APPLICATION), epoch)
    bom.components.update(linked)
    bom.register_dependency(layer, linked)
    return _written(bom)


def of_wheel(path: Path, layers: Iterable[Path], epoch: int, dependencies: Iterable[str]) -> str:
    """Bill of materials of the wheel, the layers inside it, and what pip installs with it: in the versions of the
    tests."""
    wheel, linked = _file(path, ComponentType.APPLICATION), _linked()
    wheel.purl = PackageURL("pypi", name="truemem", version=VERSION)
    bom = _bom(wheel, epoch)
    inside = [_file(each, ComponentType.APPLICATION) for each in layers]
    copied = [_script(), *_node_client()]
    required = requirements_of(dependencies)
    packages = {name: _package(name) for name in sorted(required)}
    bom.components.update(linked, inside, copied, packages.values())
    bom.register_dependency(wheel, [*inside, *copied, *(packages[name] for name in dependencies)])
    for each in inside:
        bom.register_dependency(each, linked)
    for name, own in required.items():
        bom.register_dependency(packages[name], [packages[each] for each in own])
    return _written(bom)


def _bom(subject: Component, epoch: int) -> Bom:
    """The document. Its serial number is made of the subject's own hash: the same file has the same document."""
    (digest,) = subject.hashes
    when = datetime.fromtimestamp(epoch, UTC)
    serial = uuid.uuid5(uuid.NAMESPACE_OID, digest.content)
    return Bom(serial_number=serial, metadata=BomMetaData(component=subject, timestamp=when))


def _written(bom: Bom) -> str:
    return f"{JsonV1Dot6(bom).output_as_string(indent=2)}\n"


def _file(path: Path, kind: ComponentType) -> Component:
    """A file of the release."""
    return Component(
        name=path.name,
        bom_ref=path.name,
        type=kind,
        version=VERSION,
        licenses=[_licence(LICENCE)],
        hashes=_sha256(hashlib.sha256(path.read_bytes()).hexdigest()),
    )


def _script() -> Component:
    """What the wheel has of others in itself."""
    content = UPLOT.read_bytes()
    (version,) = re.findall(rb"uPlot \(v([\d.]+)\)", content[:200])
    return Component(
        name="uPlot",
        bom_ref="uplot",
        version=version.decode(),
        licenses=[_licence("MIT")],
        hashes=_sha256(hashlib.sha256(content).hexdigest()),
        purl=PackageURL("npm", name="uplot", version=version.decode()),
    )


def _node_client() -> list[Component]:
    """What is in AWS's runtime client for Node.js, which the wheel has compiled. It never runs in Lambda."""
    from_npm = [
        Component(
            name=locked(name)["name"],
            bom_ref=f"npm:{name}",
            version=locked(name)["version"],
            licenses=[_licence(locked(name)["license"])],
            hashes=[_sha512(locked(name)["integrity"])],
            purl=PackageURL("npm", *_scoped(locked(name)["name"]), version=locked(name)["version"]),
        )
        for name in (*PACKAGES, "@aws/lambda-invoke-store")
    ]
    ours = f"as {PACKAGES[0]} {locked(PACKAGES[0])['version']} brings it"
    return [
        *from_npm,
        Component(
            name="aws-lambda-cpp",
            bom_ref="aws-lambda-cpp",
            version=AWS_LAMBDA_CPP,
            description=f"Client of the Runtime API, {ours}",
            licenses=[_licence(LICENCE)],
            purl=PackageURL("github", "awslabs", "aws-lambda-cpp", version=f"v{AWS_LAMBDA_CPP}"),
        ),
        Component(
            name="curl",
            bom_ref="curl",
            version=CURL,
            description=f"libcurl, {ours}: HTTP to the Runtime API alone, without TLS, cookies and proxies",
            licenses=[_licence("curl")],
            purl=PackageURL("generic", name="curl", version=CURL),
            cpe=f"cpe:2.3:a:haxx:libcurl:{CURL}:*:*:*:*:*:*:*",
        ),
        Component(
            name="libc++",
            bom_ref="libcxx",
            version=LIBCXX,
            description="Strings and clocks of the C++ library, as ziglang brings it",
            licenses=[_licence("Apache-2.0 WITH LLVM-exception")],
            purl=PackageURL("generic", name="libcxx", version=LIBCXX),
        ),
    ]


def _linked() -> list[Component]:
    """What is linked into the layer's executables."""
    wheels = re.findall(r"--hash=sha256:(\w+)", LOCK.read_text())
    (zig,) = re.findall(r"^ziglang==([\w.]+)", LOCK.read_text(), re.MULTILINE)
    ziglang = PackageURL("pypi", name="ziglang", version=zig)
    return [
        Component(
            name="CPython",
            bom_ref="cpython",
            version=PYTHON,
            licenses=[_licence("PSF-2.0")],
            hashes=_sha256(SOURCE_SHA256),
            purl=PackageURL("generic", name="cpython", version=PYTHON),
            cpe=f"cpe:2.3:a:python:python:{PYTHON}:*:*:*:*:*:*:*",
            external_references=[_source(RELEASE, [SOURCE_SHA256])],
        ),
        Component(
            name="musl",
            bom_ref="musl",
            version=MUSL,
            description=f"The C library, as ziglang {zig} brings it: with its patches",
            licenses=[_licence("MIT")],
            purl=PackageURL("generic", name="musl", version=MUSL),
            cpe=f"cpe:2.3:a:musl-libc:musl:{MUSL}:*:*:*:*:*:*:*",
            external_references=[_source(str(ziglang), wheels, "lib/libc/musl in each of these wheels")],
        ),
        Component(
            name="ziglang",
            bom_ref="ziglang",
            version=zig,
            description="The compiler. Its run-time library (compiler_rt) is linked in",
            licenses=[_licence("MIT")],
            purl=ziglang,
            external_references=[_source(str(ziglang), wheels, "a wheel for each machine that builds")],
        ),
        Component(
            name="mypy",
            bom_ref="mypy",
            version=MYPY,
            description="Makes C of the sidecar. The C that this calls, mypyc/lib-rt, is linked in",
            licenses=[_licence("MIT"), _licence("PSF-2.0")],
            purl=PackageURL("pypi", name="mypy", version=MYPY),
        ),
    ]


def _package(name: str) -> Component:
    """An installed distribution."""
    about = metadata(name)
    return Component(
        name=name,
        bom_ref=f"pypi:{name}",
        version=about["Version"],
        licenses=[_licence(each) for each in _licences(cast(Mapping[str, str], about), about.get_all("Classifier"))],
        purl=PackageURL("pypi", name=name, version=about["Version"]),
    )


def _licences(about: Mapping[str, str], classifiers: Iterable[str] | None) -> list[str]:
    """Licences as the package states them."""
    given = about.get("License-Expression") or about.get("License") or ""
    if given and len(given) <= MOST_NAME_CHARS and "\n" not in given:
        return [given]
    return [each.rpartition(" :: ")[2] for each in classifiers or () if each.startswith("License :: ")]


def _licence(text: str) -> License:
    return LicenseFactory().make_from_string(text)


def _sha256(*digests: str) -> list[HashType]:
    return [HashType(alg=HashAlgorithm.SHA_256, content=each) for each in digests]


def _scoped(name: str) -> tuple[str | None, str]:
    """Namespace and name of a package at npm."""
    scope, _, own = name.rpartition("/")
    return scope or None, own


def _sha512(integrity: str) -> HashType:
    """The hash that a lock of npm states."""
    return HashType(alg=HashAlgorithm.SHA_512, content=base64.b64decode(integrity.removeprefix("sha512-")).hex())


def _source(url: str, digests: Iterable[str], comment: str | None = None) -> ExternalReference:
    kind = ExternalReferenceType.SOURCE_DISTRIBUTION
    return ExternalReference(type=kind, url=XsUri(url), hashes=_sha256(*digests), comment=comment)
