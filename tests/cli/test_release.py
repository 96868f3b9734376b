"""A release: one version everywhere, and what `make release` makes can be installed and run."""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import os
import re
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
import venv
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from django.test import Client
from referencing import Registry, Resource

from apps.core.code_paths import REPOSITORY
from apps.core.release import __version__, read_revision, release_name
from tests.faults.stack import eventually, free_port

MAKER = REPOSITORY / ".ci/make_release.py"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("release") / "dist"
    made = subprocess.run(
        [sys.executable, str(MAKER), str(target)], capture_output=True, text=True, timeout=600, check=False,
        env={**os.environ, "ALLOW_CHANGED": "1"},
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    return target


def test_version_is_a_command() -> None:
    for argument in ("version", "--version"):
        command = [sys.executable, str(REPOSITORY / "manage.py"), argument]
        printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        assert printed == f"fairshare-web {release_name()}\n"


def test_the_newest_part_of_the_changelog_is_of_this_version() -> None:
    headings = re.findall(r"^## (.*)$", (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == __version__


def test_metrics_name_the_release(db: None, client: Client) -> None:
    text = client.get("/metrics").content.decode()
    assert re.search(rf'^fairshare_build_info{{revision="[^"]*",version="{re.escape(__version__)}"}} 1\.0$', text, re.M)


def test_a_revision_names_changed_files(tmp_path: Path) -> None:
    assert read_revision(tmp_path) == "", "not a clone"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    (tmp_path / "file").write_text("1")
    for arguments in (["init", "--quiet"], ["add", "file"], ["commit", "--quiet", "--message", "One"]):
        subprocess.run([*git, *arguments], check=True)
    assert re.fullmatch(r"[0-9a-f]{12}", read_revision(tmp_path))
    (tmp_path / "file").write_text("2")
    assert re.fullmatch(r"[0-9a-f]{12}\+", read_revision(tmp_path))


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_checksums_and_packages_of_a_release(release: Path) -> None:
    sums = dict(line.split("  ")[::-1] for line in (release / "SHA256SUMS").read_text().splitlines())
    names = {f"fairshare_web-{__version__}-py3-none-any.whl", f"fairshare_web-{__version__}.tar.gz"}
    assert names < set(sums) == {path.name for path in release.iterdir()} - {"SHA256SUMS"}, "no key was named"
    for name, digest in sums.items():
        assert hashlib.sha256((release / name).read_bytes()).hexdigest() == digest, name
    bill = json.loads((release / f"fairshare-web-{__version__}.cdx.json").read_text(encoding="utf-8"))
    schemas = importlib.resources.files("cyclonedx.schema") / "_res"
    found = {
        name: json.loads((schemas / name).read_text(encoding="utf-8"))
        for name in ("bom-1.6.SNAPSHOT.schema.json", "spdx.SNAPSHOT.schema.json", "jsf-0.82.SNAPSHOT.schema.json")
    }
    base = found["bom-1.6.SNAPSHOT.schema.json"]["$id"].rpartition("/")[0]  # what its references are relative to
    registry = Registry().with_resources(
        (f"{base}/{name}", Resource.from_contents(text)) for name, text in found.items()
    )
    jsonschema.Draft7Validator(found["bom-1.6.SNAPSHOT.schema.json"], registry=registry).validate(bill)
    lock = (REPOSITORY / "requirements-run.lock").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==([^ ;]+)", lock, re.MULTILINE))
    assert {part["name"]: part["version"] for part in bill["components"]} == pinned
    unlicensed = [part["name"] for part in bill["components"] if not part.get("licenses")]
    assert set(unlicensed) <= {"tzdata", "colorama", "pywin32"}, "packages of other platforms"
    assert all(part["hashes"] for part in bill["components"])


@pytest.fixture
def installed(release: Path, tmp_path: Path) -> Path:
    """Its programs in a fresh environment: the wheel, or the source release; packages of this one, and no network."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False, symlinks=True)
    here = next(folder.glob("lib/python3*/site-packages"))
    others = next(Path(sys.prefix).glob("lib/python3*/site-packages"))
    (here / "others.pth").write_text(f"{others}\n")
    return folder / "bin"


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["wheel", "source"])
def test_a_release_is_installed_and_serves_the_sample(
    kind: str, release: Path, installed: Path, tmp_path: Path
) -> None:
    pattern = "*.whl" if kind == "wheel" else "*.tar.gz"
    pip = [sys.executable, "-m", "pip", "--python", str(installed / "python"), "install", "--quiet", "--no-index"]
    options = ["--no-deps", "--no-build-isolation", str(next(release.glob(pattern)))]
    subprocess.run([*pip, *options], check=True, timeout=300)
    empty = tmp_path / "empty"
    empty.mkdir()
    program, port = str(installed / "fairshare"), free_port()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("FAIRSHARE_", "DATABASE_", "DJANGO_"))
    }
    environment |= {"FAIRSHARE_PORT": str(port), "PATH": os.environ["PATH"]}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *arguments], cwd=empty, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    assert run("version").stdout == f"fairshare-web {release_name()}\n"
    refused = run("tree", "nordgrid")
    assert refused.returncode != 0
    assert "There is no instance in" in refused.stderr
    assert list(empty.iterdir()) == [], "nothing was made"
    with (tmp_path / "up.log").open("w") as log:
        site = subprocess.Popen([program, "up"], cwd=empty, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        eventually(lambda: _answers(port, "/readyz"), "the site is ready", within_s=300)
        named = json.loads((empty / "var" / "static" / "staticfiles.json").read_text(encoding="utf-8"))["paths"]
        picture = f"/static/{named['help/pictures/home-light.png']}"
        for path in ("/metrics", "/sign-in/", picture, "/api/v1/schema"):
            assert _answers(port, path), path
        printed = run("with_stack", "--", program, "tree", "nordgrid")
        assert printed.returncode == 0, printed.stderr
        assert "turbulence" in printed.stdout
    finally:
        site.terminate()
        assert site.wait(timeout=120) == 0
    assert {path.name for path in empty.iterdir()} == {"var"}


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_a_release_is_installed_and_serves_without_a_network(release: Path, tmp_path: Path) -> None:
    """By the commands of docs/install.md; what is isolated has a loopback interface of its own and nothing else."""
    isolated = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "isolated"]
    tried = subprocess.run([*isolated, "true"], capture_output=True, text=True, timeout=30, check=False)
    if tried.returncode:
        pytest.skip(f"no network namespace can be made here: {tried.stderr.strip()}")
    text = (REPOSITORY / "docs/install.md").read_text(encoding="utf-8").partition("## Without a network")[2]
    collect, install = text.split("```")[1:4:2]
    place = tmp_path / "place"
    place.mkdir()
    for file in (*release.glob("*.whl"), *release.glob("*.tar.gz")):
        (place / file.name).symlink_to(file)
    venv.create(tmp_path / "pip", with_pip=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRSHARE_", "DATABASE"))}
    path = f"{tmp_path / 'pip/bin'}:{os.environ['PATH']}"
    subprocess.run(["sh", "-ec", collect], cwd=place, env={**environment, "PATH": path}, check=True, timeout=600)
    local = install.replace("/opt/fairshare", str(tmp_path / "opt"))
    subprocess.run([*isolated, "sh", "-ec", local], cwd=place, env=environment, check=True, timeout=600)
    ready = """
        "$0" up --no-sample > up.log 2>&1 & up=$!
        for _ in $(seq 240); do
            if wget -q -O - http://127.0.0.1:8000/readyz; then kill -INT $up; wait $up; exit; fi
            kill -0 $up && sleep 1
        done
        cat up.log; exit 1
    """
    program = str(tmp_path / "opt/bin/fairshare")
    own = {**environment, "FAIRSHARE_VAR": str(tmp_path / "var"), "TMPDIR": "/tmp"}
    served = subprocess.run([*isolated, "sh", "-c", ready, program], cwd=place, env=own, timeout=300, check=False)
    assert served.returncode == 0, (place / "up.log").read_text(encoding="utf-8")


def _answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_the_source_release_has_no_tests_and_no_files_of_an_instance(release: Path) -> None:
    with tarfile.open(next(release.glob("*.tar.gz"))) as archive:
        tops = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"apps", "manage.py", "pyproject.toml", "REVISION", "requirements-run.lock"} < tops
    assert tops.isdisjoint({"tests", "var", ".venv", "bench", "site", "dist"})
