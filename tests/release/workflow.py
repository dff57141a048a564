"""Runs a workflow's shell commands here: each job in a folder of its own, its actions by what they leave behind."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml


class Workflow:
    """The jobs of one workflow file of the repository `origin`, at one of its tags."""

    def __init__(
        self, folder: Path, origin: Path, tag: str, name: str, variables: Mapping[str, str], given: Mapping[str, str]
    ) -> None:
        """`variables`: the environment of each step; `given`: values of `${{ ... }}`, by what stands between."""
        self._folder, self._origin, self._tag = folder, origin, tag
        self._variables = {**os.environ, **variables, "GITHUB_REF_NAME": tag, "CI": "true"}
        self._given = given
        self.actions: dict[str, Callable[[Path, Mapping[str, Any]], None]] = {
            "actions/checkout": self._checkout,
            "actions/setup-python": lambda _, __: None,
            "actions/upload-artifact": self._upload,
            "actions/download-artifact": self._download,
        }
        """What each action does in the job's folder, with its inputs."""
        self._checkout(at := folder / "read", {})
        self.jobs: dict[str, Any] = yaml.safe_load((at / ".github" / "workflows" / name).read_text())["jobs"]

    def run(self, job: str) -> Path:
        """Run the steps of a job, whose needs have run. Returns its folder."""
        place = self._folder / job
        place.mkdir()
        for step in self.jobs[job]["steps"]:
            if "uses" in step:
                with_ = {name: self._filled(value) for name, value in step.get("with", {}).items()}
                self.actions[step["uses"].partition("@")[0]](place, with_)
            else:
                assert "${{" not in step["run"], step
                own = {name: self._filled(value) for name, value in step.get("env", {}).items()}
                command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
                done = subprocess.run(
                    command, cwd=place, env={**self._variables, **own}, capture_output=True, text=True, check=False
                )
                assert done.returncode == 0, f"{step}\n{done.stdout}\n{done.stderr}"
        return place

    def _filled(self, value: Any) -> Any:
        return (
            re.sub(r"\$\{\{ (.+?) \}\}", lambda found: self._given[found[1]], value)
            if isinstance(value, str)
            else value
        )

    def _checkout(self, place: Path, _: Mapping[str, Any]) -> None:
        subprocess.run(["git", "clone", "--quiet", "--branch", self._tag, self._origin, place], check=True)

    def _upload(self, place: Path, given: Mapping[str, Any]) -> None:
        assert any((place / given["path"]).iterdir())
        shutil.copytree(place / given["path"], self._folder / "artifacts" / given["name"])

    def _download(self, place: Path, given: Mapping[str, Any]) -> None:
        shutil.copytree(self._folder / "artifacts" / given["name"], place / given["path"])
