"""`pip install truemem` is enough for every command but the demo; what has an extra says what to install."""

from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.utils import canonicalize_name
from truemem_workbench.support.bad_input import MODULES

from deploy.materials import requirements_of
from tests.install.conftest import Installed
from tests.install.dependencies import EXTRAS, PLAIN, PROJECT, imported

BEFORE_IT = {"pytest"}
"""What has loaded us, if it is there."""
RUNS = ("check", "soak", "size")


def distributions() -> dict[str, str]:
    """The distribution of each package that is installed here. PySpark is not in requirements.lock."""
    here = {package: canonicalize_name(names[0]) for package, names in packages_distributions().items()}
    return {"pyspark": "pyspark", "py4j": "pyspark", **here}


def test_dependencies_cover_every_import() -> None:
    of = distributions()
    needed = {of[package] for package in imported()} - BEFORE_IT
    assert needed - EXTRAS["memray"] - EXTRAS["spark"] <= set(
        requirements_of(PLAIN | EXTRAS["mcp"] | EXTRAS["pictures"])
    )
    assert needed >= PLAIN


def test_extras_bring_what_their_commands_look_for() -> None:
    of = distributions()
    assert PROJECT["optional-dependencies"].keys() - {"dev"} == EXTRAS.keys()
    for extra, packages in MODULES.items():
        assert {of[package] for package in packages} <= EXTRAS[extra]


def test_the_demo_names_the_extra_that_it_misses(bare: Installed, tmp_path: Path) -> None:
    done = bare("truemem", "demo", cwd=tmp_path)
    said = "truemem demo: aws_lambda_powertools is not installed. Try pip install 'truemem[demo]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_a_picture_names_the_extra_that_it_misses(bare: Installed, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def handler(event, context): ...")
    for command in ("page log.txt", "local run app.py:handler --event {}", *map("{} app.py:handler".format, RUNS)):
        done = bare("truemem", *command.split(), "--output", "memory.png", cwd=tmp_path)
        assert done.returncode == 2, done.stdout
        assert done.stderr.endswith("matplotlib is not installed. Try pip install 'truemem[pictures]'\n")
        assert not (tmp_path / "memory.png").exists()
