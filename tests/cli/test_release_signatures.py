"""A release is signed: the commands of docs/upgrade.md name a file that was changed or added."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from apps.core.code_paths import REPOSITORY

SIGNER = REPOSITORY / ".ci/sign_release.py"
FILES = {"fairshare_web-1.0.0.tar.gz": b"source", "CHANGES-1.0.0.md": b"# changes\n"}


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SIGNER), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a key, its public half, and a signed release below `dist`."""
    folder = tmp_path_factory.mktemp("signed")
    dist = folder / "dist"
    dist.mkdir()
    for name, content in FILES.items():
        (dist / name).write_bytes(content)
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in FILES.items())
    (dist / "SHA256SUMS").write_text(sums)
    fingerprint = run("make-key", folder / "key", folder / "release-key.pem")
    assert (fingerprint.returncode, fingerprint.stderr) == (0, "")
    assert run("sign", folder / "key", dist).stdout == fingerprint.stdout
    assert (folder / "key").stat().st_mode & 0o777 == 0o600
    return folder


@pytest.fixture
def signed(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "dist", tmp_path / "dist"))


def test_a_signed_release_holds(made: Path, signed: Path) -> None:
    done = run("check", made / "release-key.pem", signed)
    assert (done.returncode, done.stdout[:19]) == (0, "2 files, signed by "), done.stderr
    assert re.fullmatch(r"[0-9a-f]{4}( [0-9a-f]{4}){15}\n", done.stdout[19:])


def changed(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-1] + b"x")


def sums_of_another(folder: Path) -> None:
    text = (folder / "SHA256SUMS").read_text()
    (folder / "SHA256SUMS").write_text(text.replace(hashlib.sha256(b"source").hexdigest(), "0" * 64))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (changed("fairshare_web-1.0.0.tar.gz"), "fairshare_web-1.0.0.tar.gz isn't the file that was signed."),
        (lambda folder: (folder / "CHANGES-1.0.0.md").unlink(), "CHANGES-1.0.0.md isn't the file that was signed."),
        (lambda folder: (folder / "more.whl").touch(), "more.whl isn't among the signed files."),
        (sums_of_another, "SHA256SUMS.sig isn't this key's signature of SHA256SUMS."),
        (changed("SHA256SUMS.sig"), "SHA256SUMS.sig isn't this key's signature of SHA256SUMS."),
        (lambda folder: (folder / "SHA256SUMS.sig").write_bytes(b""), "SHA256SUMS.sig isn't this key's signature"),
        (lambda folder: (folder / "SHA256SUMS.sig").unlink(), "has no SHA256SUMS.sig."),
    ],
)
def test_what_isnt_as_it_was_signed_is_named(
    made: Path, signed: Path, change: Callable[[Path], object], says: str
) -> None:
    change(signed)
    done = run("check", made / "release-key.pem", signed)
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr


def test_another_key_no_key_and_a_key_that_is_there_are_refused(made: Path, signed: Path, tmp_path: Path) -> None:
    assert run("make-key", tmp_path / "key", tmp_path / "public.pem").returncode == 0
    assert "this key's signature" in run("check", tmp_path / "public.pem", signed).stderr
    before = (tmp_path / "key").read_bytes()
    assert run("make-key", tmp_path / "key", tmp_path / "other.pem").returncode == 1
    assert (tmp_path / "key").read_bytes() == before
    assert "holds no public key" in run("check", tmp_path / "key", signed).stderr
    assert "holds no key" in run("sign", made / "release-key.pem", signed).stderr
    assert run("check", tmp_path / "public.pem").returncode == 2


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is missing: apt-get install openssl")
def test_the_documented_commands_check_a_release_without_the_product(made: Path, signed: Path) -> None:
    text = (REPOSITORY / "docs/upgrade.md").read_text(encoding="utf-8")
    commands = re.findall(r"```sh\n(.*?)```", text[text.index("## Check a release") :], re.DOTALL)[0]
    shutil.copy(made / "release-key.pem", signed)

    def check() -> subprocess.CompletedProcess[str]:
        script = ["sh", "-e", "-c", commands]
        return subprocess.run(script, cwd=signed, capture_output=True, text=True, timeout=60, check=False)

    done = check()
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Signature Verified Successfully\n" + "".join(f"{name}: OK\n" for name in FILES)
    sums_of_another(signed)
    assert "Signature Verification Failure" in check().stdout
