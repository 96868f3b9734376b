"""The plug-in of docs/plugins.md, taken from the page, is built, installed and tested as the page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.example_package.wheel import build_wheel, install_wheel

_BLOCK = re.compile(r"^```(?:python|toml|html)\n(?:# |<!-- )(\S+)(?: -->)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAM = """
import json
import django
django.setup()
from django.core.checks import run_checks
from django.template.loader import get_template
from django.test import Client
from django.urls import reverse
from apps.web.shell.places import all_tabs
answer = Client(headers={"host": "localhost"}).get("/api/v1/policies/physics/idle")
print(json.dumps({
    "page": reverse("pages:idle", kwargs={"policy": "physics"}),
    "rest": answer.status_code,
    "navigation": [tab.label for route, tab in all_tabs().items() if route == "idle"],
    "template": get_template("idle.html").origin.name,
    "checks": [message.msg for message in run_checks()],
}))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the page, where its author has them."""
    folder = tmp_path_factory.mktemp("idle")
    for name, text in _BLOCK.findall((REPOSITORY / "docs/plugins.md").read_text()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "fairshare_idle/__init__.py").write_text("")
    return folder


def _run(*arguments: str, path: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {
        **os.environ,
        "PYTHONPATH": f"{path}{os.pathsep}{REPOSITORY}",
        "FAIRSHARE_PLUGINS": "fairshare_idle",
        "DJANGO_SETTINGS_MODULE": "fairshare_web.settings",
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environ, cwd=cwd)


@pytest.mark.deep
def test_the_tests_of_the_page_pass(folder: Path) -> None:
    ended = _run("-m", "pytest", "-q", "--ds=fairshare_web.settings", "test_idle.py", path=folder, cwd=folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 passed" in ended.stdout


@pytest.mark.deep
def test_the_plugin_of_the_page_is_installed_and_served(
    folder: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    install_wheel(build_wheel(tmp_path, folder), tmp_path / "site", with_pip=bool(pytestconfig.getoption("deep")))
    ended = _run("-c", _PROGRAM, path=tmp_path / "site", cwd=REPOSITORY)
    assert ended.returncode == 0, ended.stderr
    body = json.loads(ended.stdout)
    assert body.pop("template").startswith(str(tmp_path / "site"))
    assert body == {"page": "/policy/physics/idle/", "rest": 401, "navigation": ["Idle"], "checks": []}
