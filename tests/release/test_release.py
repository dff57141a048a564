"""What a release says of itself: notes, bills of materials, checksums, the table of its layers."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from truemem import VERSION

from deploy.layer_arns import BEGIN, END, with_layers
from deploy.licences import licence_table, with_licences
from deploy.materials import of_layer, of_wheel, requirements_of
from deploy.release import check_tag, notes
from layer.__main__ import default_cache
from layer.errors import BuildError
from layer.pins import LIBCXX, MUSL, PYTHON, SOURCE_SHA256
from layer.toolchain import Toolchain
from tests.install.dependencies import PLAIN

ROOT = Path(__file__).parents[2]
UPLOT_SHA256 = "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"
"""Of dist/uPlot.iife.min.js in npm's uplot 1.6.32."""
CHANGELOG = (
    "# Changelog\n\nWords.\n\n## 0.2.0 (2026-12-01)\n\n### Added\n\n- Two.\n\n## 0.1.0 (unreleased)\n\n- One (1).\n"
)


def test_notes_are_the_section_of_the_version() -> None:
    assert notes(CHANGELOG, "0.2.0") == ("2026-12-01", "### Added\n\n- Two.\n")
    assert notes(CHANGELOG, "0.1.0") == ("unreleased", "- One (1).\n")
    with pytest.raises(BuildError, match=r"no section `## 0\.3\.0"):
        notes(CHANGELOG, "0.3.0")
    assert len(notes((ROOT / "CHANGELOG.md").read_text(), VERSION)[1]) > 100


SITE = {"Documentation": "https://docs.example/truemem/"}


def test_a_tag_needs_its_version_a_date_and_a_site() -> None:
    check_tag(f"v{VERSION}", "2026-12-01", SITE, [])
    with pytest.raises(BuildError, match="the tag is v9"):
        check_tag("v9", "2026-12-01", SITE, [])
    with pytest.raises(BuildError, match="Put its date there"):
        check_tag(f"v{VERSION}", "unreleased", SITE, [])
    with pytest.raises(BuildError, match="Put its address there"):
        check_tag(f"v{VERSION}", "2026-12-01", {}, [])
    with pytest.raises(BuildError, match="misses 1 anchor"):
        check_tag(f"v{VERSION}", "2026-12-01", SITE, ["patterns#arenas"])


def read(document: str) -> dict[str, Any]:
    """The components by name. The document is valid, and every reference in it leads somewhere."""
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document) is None
    bom = json.loads(document)
    everything = [bom["metadata"]["component"], *bom["components"]]
    references = {each["bom-ref"] for each in everything}
    assert {each["ref"] for each in bom["dependencies"]} == references
    assert {name for each in bom["dependencies"] for name in each.get("dependsOn", ())} <= references
    assert not [each["name"] for each in everything if not (each["version"] and each["licenses"])]
    return {each["name"]: each for each in everything}


def test_the_layer_names_what_is_linked_into_it(zips: list[Path]) -> None:
    for path in zips:
        found = read(of_layer(path, 0))
        assert found.keys() == {path.name, "CPython", "mypy", "musl", "ziglang"}
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert found[path.name]["hashes"] == [{"alg": "SHA-256", "content": digest}]
        assert found["CPython"]["version"] == PYTHON
        assert found["CPython"]["hashes"] == [{"alg": "SHA-256", "content": SOURCE_SHA256}]
        (source,) = found["musl"]["externalReferences"]
        assert (found["musl"]["version"], len(source["hashes"]) > 1) == (MUSL, True)


def test_the_libraries_are_what_the_compiler_brings() -> None:
    library = Toolchain(default_cache(), print).library
    assert f'"{MUSL}"' in (library / "libc" / "musl" / "src" / "internal" / "version.h").read_text()
    major, minor = LIBCXX.split(".")
    assert f" _LIBCPP_VERSION {major}{minor:0>2}" in (library / "libcxx" / "include" / "__config").read_text()


def test_the_wheel_names_layers_and_dependencies(zips: list[Path], tmp_path: Path) -> None:
    wheel = tmp_path / "truemem.whl"
    wheel.write_text("a wheel")
    document = of_wheel(wheel, zips, 0, PLAIN)
    packages = set(requirements_of(PLAIN))
    inside = {"CPython", "mypy", "musl", "ziglang", "uPlot", *(path.name for path in zips)}
    client = {"aws-lambda-ric", "aws-lambda-cpp", "curl", "libc++", "node-addon-api", "node-api-headers"}
    assert read(document).keys() == {wheel.name, *inside, *client, "@aws/lambda-invoke-store", *packages}
    assert read(document)["uPlot"]["hashes"] == [{"alg": "SHA-256", "content": UPLOT_SHA256}]
    clients = [each["purl"] for each in json.loads(document)["components"] if each["name"] == "aws-lambda-ric"]
    assert clients == ["pkg:npm/aws-lambda-ric@3.3.0", "pkg:npm/aws-lambda-ric@4.0.2"]
    assert {"numpy", "multidict"} <= packages
    assert of_wheel(wheel, zips, 0, sorted(PLAIN, reverse=True)) == document


def test_layers_become_a_table_by_region() -> None:
    arn = "arn:aws:lambda:{}:123456789012:layer:truemem-{}:3"
    published = [
        json.dumps({"region": region, "architecture": machine, "arn": arn.format(region, machine)})
        for region in ("us-east-1", "eu-west-1")
        for machine in ("x86_64", "arm64")
    ]
    page = with_layers(f"Before\n{BEGIN}old\n{END}\nafter\n", "v1.2.3", published)
    rows = page.splitlines()
    assert (rows[0], rows[-1]) == ("Before", "after")
    assert "v1.2.3" in page
    assert "old" not in page
    assert [row.split(" | ")[0] for row in rows if "arn:" in row] == ["| eu-west-1", "| us-east-1"]
    assert f"| `{arn.format('eu-west-1', 'x86_64')}` | `{arn.format('eu-west-1', 'arm64')}` |" in page
    assert with_layers(page, "v1.2.3", published) == page


def test_a_layer_without_an_arn_is_refused() -> None:
    failed = json.dumps({"region": "eu-west-1", "architecture": "arm64", "problem": "no access"})
    with pytest.raises(ValueError, match="eu-west-1: arm64 has no ARN: no access"):
        with_layers(f"{BEGIN}{END}", "v1", [failed])
    with pytest.raises(ValueError, match="has no place"):
        with_layers("", "v1", [])


def test_the_page_has_a_place_for_the_table() -> None:
    assert with_layers((ROOT / "docs" / "deploy.md").read_text(), f"v{VERSION}", [])


def test_others_can_do_nothing_with_the_workflows() -> None:
    """What zizmor knows: actions that move, wide permissions, templates in scripts, caches in a release."""
    zizmor = Path(sys.executable).with_name("zizmor")
    command: list[str | Path] = [zizmor, "--offline", "--no-progress", ROOT / ".github" / "workflows"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_licences_of_all_bills_are_on_the_page(zips: list[Path]) -> None:
    page = (ROOT / "docs" / "platform-team.md").read_text(encoding="utf-8")
    for stated in (f"CPython {PYTHON}", f"musl {MUSL}"):
        assert stated in page  # else `make release && python -m deploy.licences`
    bills = [of_layer(path, 0) for path in zips]
    made = with_licences(page, bills)
    assert with_licences(made, bills) == made
    assert f"| MIT | musl {MUSL}, ziglang" in made
    assert f"| PSF-2.0 | CPython {PYTHON} | 0 |" in made


def test_a_licence_that_is_no_usual_one_is_named() -> None:
    def component(name: str, stated: dict[str, Any]) -> dict[str, Any]:
        return {"bom-ref": name, "name": name.removeprefix("pypi:"), "version": "1", "licenses": [stated]}

    packages = [
        component("pypi:a", {"license": {"id": "MIT"}}),
        component("pypi:b", {"license": {"name": "BSD License"}}),
        component("pypi:c", {"expression": "Apache-2.0 OR BSD-2-Clause"}),
        component("pypi:d", {"license": {"id": "GPL-3.0-only"}}),
    ]
    subject = component("truemem.whl", {"license": {"id": "Apache-2.0"}})
    table = licence_table([json.dumps({"metadata": {"component": subject}, "components": packages})])
    assert "| BSD |  | 1 |" in table
    assert table.endswith("Others, as they state it: c (Apache-2.0 OR BSD-2-Clause), d (GPL-3.0-only).")
