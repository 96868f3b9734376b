"""docker/: the image's packages follow the lock, compose hands in what the settings read, `serve` starts each role."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from apps.cli.stack import paths
from apps.web.rest.body_limits import FORM_ROOM
from fairshare_web import settings as settings_module
from tests.material import REPOSITORY

DOCKER = REPOSITORY / "docker"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ROLES = {
    "prepare": "apps.cli.stack.prepare",
    "web": "granian",
    "worker": "solo",
    "outgoing": "federation",
    "beat": "beat",
}


def pins(name: str) -> dict[str, set[str]]:
    """Each `name==version` of a lock file, with its hashes."""
    blocks = re.split(r"\n(?=[a-zA-Z])", (REPOSITORY / name).read_text(encoding="utf-8"))
    return {block.split(maxsplit=1)[0]: set(re.findall(r"sha256:\w+", block)) for block in blocks if "==" in block}


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[~=<> ]", each, maxsplit=1)[0].lower() for each in requirements}


@pytest.mark.parametrize("lock", ["requirements-run.lock", "requirements-fast.lock", "requirements-backup.lock"])
def test_the_image_installs_the_tested_versions(lock: str) -> None:
    every = pins("requirements.lock")
    found = pins(lock)
    assert found
    assert {pin: hashes for pin, hashes in found.items() if every.get(pin) != hashes} == {}


def test_the_image_has_each_package_that_the_project_names() -> None:
    assert names(PROJECT["dependencies"]) - names(list(pins("requirements-run.lock"))) == set()
    assert names(PROJECT["optional-dependencies"]["fast"]) <= names(list(pins("requirements-fast.lock")))


def test_the_lock_names_the_extras_that_packages_ask_for() -> None:
    """pip before 23.3 holds `package[extra]` to a pin that names the extra, and otherwise takes the newest release."""
    requirements = map(Requirement, pins("requirements.lock"))
    locked = {canonicalize_name(requirement.name): requirement.extras for requirement in requirements}
    asked = [
        (distribution.name, requirement)
        for distribution in distributions()
        if canonicalize_name(distribution.name) in locked  # a developer may have installed more
        for requirement in map(Requirement, distribution.requires or [])
        if requirement.extras and (not requirement.marker or requirement.marker.evaluate({"extra": ""}))
    ]
    assert [(name, str(each)) for name, each in asked if not each.extras <= locked[canonicalize_name(each.name)]] == []
    assert len(locked) > 50


def test_the_lock_can_be_installed_with_the_first_python_3_11() -> None:
    """Debian 12 has 3.11.2; a resolver that gets 3.11 alone takes releases that need a later one."""
    first = {"python_version": "3.11", "python_full_version": "3.11.0"}
    lines = re.findall(r"^([a-zA-Z].*?==.*?) \\$", (REPOSITORY / "requirements.lock").read_text(), re.MULTILINE)
    pinned = [line for line in map(Requirement, lines) if not line.marker or line.marker.evaluate(first)]
    needed = {each.name.lower(): SpecifierSet(each.metadata["Requires-Python"] or "") for each in distributions()}
    assert len(pinned) > 50
    installed = [pin for pin in pinned if pin.name in needed and (not pin.marker or pin.marker.evaluate())]
    assert [str(pin) for pin in installed if not needed[pin.name].contains("3.11.0")] == []


def test_the_build_gets_only_what_the_dockerfile_copies() -> None:
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", (DOCKER / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    wanted = {name for line in copied for name in line.split()}
    kept = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert wanted == kept
    assert [name for name in wanted if not (REPOSITORY / name).exists()] == []


def services() -> Iterator[tuple[str, dict[str, Any]]]:
    document = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
    return iter(document["services"].items())


def test_compose_names_settings_that_exist() -> None:
    read = "".join(Path(str(module.__file__)).read_text(encoding="utf-8") for module in (settings_module, paths))
    named = {name for _, each in services() if "serve" in each.get("command", []) for name in each["environment"]}
    assert {name for name in named if name.removesuffix("_FILE") not in read} == set()


SETTINGS = set(
    re.findall(r"^\| `(\w+)` \|", (REPOSITORY / "docs/settings.md").read_text(encoding="utf-8"), re.MULTILINE)
)
OF_SECRETS = {"DATABASE_URL", "SECRET_KEY", "FAIRSHARE_TOKEN_PEPPERS", "FAIRSHARE_PSEUDONYM_KEY"}
OF_THE_IMAGE = {"FAIRSHARE_VAR", "FAIRSHARE_PORT"}


def test_the_example_has_every_variable_of_compose() -> None:
    asked = set(re.findall(r"\$\{(\w+)", (DOCKER / "compose.yaml").read_text(encoding="utf-8")))
    documented = set(re.findall(r"^(\w+)=", (DOCKER / ".env.example").read_text(encoding="utf-8"), re.MULTILINE))
    assert asked - documented - SETTINGS == {"FAIRSHARE_IMAGE"}  # the one that `docker compose build` makes, by default
    assert documented - asked - SETTINGS == set()


@pytest.mark.parametrize("role", ROLES)
def test_every_documented_setting_of_docker_env_reaches_every_process(role: str) -> None:
    """`env_file` hands all of them on; what `environment` sets besides may be set in docker/.env too."""
    service = dict(services())[role]
    text = (REPOSITORY / "docs/settings.md").read_text(encoding="utf-8")
    exceptions = set(re.findall(r"`([A-Z_]+)`", text.partition("fixed there instead:")[2].partition("\n\n")[0]))
    assert service["env_file"] == [".env"]
    fixed = {
        name.removesuffix("_FILE")
        for name, value in service["environment"].items()
        if not str(value).startswith(f"${{{name}:-")
    }
    assert len(SETTINGS) >= 60
    assert fixed & SETTINGS == OF_SECRETS | OF_THE_IMAGE == exceptions
    assert all(value.startswith("/run/secrets/") for name, value in service["environment"].items() if "_FILE" in name)


def test_every_service_has_bounds_and_no_needless_rights() -> None:
    for name, each in services():
        assert each["mem_limit"], name
        assert each["pids_limit"] > 0, name
        assert each["security_opt"] == ["no-new-privileges:true"], name
        assert each["cap_drop"] == ["ALL"], name
        assert "SYS_ADMIN" not in each.get("cap_add", []), name
        assert not each.get("privileged"), name


def test_compose_runs_each_role_once_without_a_writable_root() -> None:
    ours = {name: each for name, each in services() if "serve" in each.get("command", [])}
    assert {each["command"][1] for each in ours.values()} == set(ROLES) == set(ours)
    assert all(each["read_only"] and each["user"] == "10001:10001" for each in ours.values())
    assert all("ports" not in each for name, each in services() if name != "caddy")


@pytest.mark.django_db
@pytest.mark.parametrize("role", ROLES)
def test_serve_becomes_the_process_of_its_role(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, ...]] = []
    monkeypatch.setattr("os.execv", lambda _path, arguments: started.append(tuple(arguments)))
    call_command("serve", role)
    assert ROLES[role] in started[0]


def test_the_proxy_compresses_nothing_that_comes_uncompressed() -> None:
    """Such answers may hold a secret beside a visitor's text: see Compression in docs/security.md."""
    assert "encode" not in (DOCKER / "Caddyfile").read_text(encoding="utf-8")


def test_compose_has_the_documented_caddy() -> None:
    documented = (REPOSITORY / "docs/examples/proxy/Caddyfile").read_text(encoding="utf-8")
    expected = documented.replace("fairshare.example.org", "{$FAIRSHARE_HOST}").replace("127.0.0.1", "web")
    assert (DOCKER / "Caddyfile").read_text(encoding="utf-8") == expected


def test_the_documented_nginx_lets_the_largest_upload_through() -> None:
    text = (REPOSITORY / "docs/examples/proxy/nginx.conf").read_text(encoding="utf-8")
    limit = re.search(r"client_max_body_size (\d+)m;", text)
    assert limit
    assert int(limit[1]) * 1024**2 >= settings_module.FAIRSHARE_UPLOAD_BYTES + FORM_ROOM
