"""The package of docs/extending.md, taken from the page, built and installed by pip, brings one thing of each kind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from apps.engine.installed import GROUPS
from tests.conftest import REPOSITORY
from tests.example_package.wheel import build_wheel, install_wheel

_BLOCK = re.compile(r"^```(?:python|toml)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAM = """
import io, json, os
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairshare_web.settings")
import django
django.setup()
from apps.engine.algorithms import algorithms_of_packages
from apps.engine.operators import operators_of_packages
from apps.policies.formats.registry import guess_format, installed_formats as policy_formats, read_file
from apps.policies.settings import PolicySettings
from apps.usage.parsers.registry import installed_formats
groups = (operators_of_packages(), installed_formats(), policy_formats(), algorithms_of_packages())
outline = guess_format("# outline\\nphysics 3\\n  alice 1\\n")
tree = read_file(outline, b"# outline\\nphysics 3\\n  alice 1\\n").tree
print(json.dumps({
    "found": sorted(name for each in groups for name in each.objects),
    "refused": [refused.reason for each in groups for refused in each.refused],
    "tree": [[tree.path(i), tree.shares[i]] for i in range(len(tree))],
    "written": "".join(outline.write(outline.fit(tree), PolicySettings())),
}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """As a wheel, which pip makes of the folder where it can fetch a build backend; here nothing is fetched."""
    folder, target = tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("installed")
    for name, text in _BLOCK.findall((REPOSITORY / "docs/extending.md").read_text()):
        (folder / name).write_text(text)
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"), folder)
    install_wheel(wheel, target, with_pip=bool(pytestconfig.getoption("deep")))
    return target


def _run(*arguments: str | Path, path: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{REPOSITORY}"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environ, cwd=REPOSITORY)


def test_every_kind_has_an_example_on_the_page() -> None:
    announced = dict(_BLOCK.findall((REPOSITORY / "docs/extending.md").read_text()))["pyproject.toml"]
    assert sorted(re.findall(r'entry-points\."(.+?)"', announced)) == sorted(GROUPS)


@pytest.mark.deep
def test_the_package_of_the_page_is_installed_and_used(installed: Path) -> None:
    ended = _run("-c", _PROGRAM, path=installed)
    assert ended.returncode == 0, ended.stderr
    body = json.loads(ended.stdout)
    assert body["refused"] == []
    assert body["found"] == ["half-difference", "least-used", "minutes", "outline"]
    assert body["tree"] == [["/", 1.0], ["/physics", 3.0], ["/physics/alice", 1.0]]
    assert body["written"] == "# outline\nphysics 3.0\n  alice 1.0\n"
