"""Roots of other Debians are made once; what can't be made is named, and half a root is never taken for a whole one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.material import REPOSITORY
from tests.real_schedulers import releases, roots

FAILING = """#!/bin/sh
echo "$@" >>"$CALLS"
for word; do case $word in /*) folder=$word;; esac; done
mkdir -p "$folder/usr"
echo 'E: Failed getting release file http://mirror.invalid/debian/dists/trixie/Release'
exit 1
"""


class Making:
    """`.ci/roots` with a debootstrap that notes how it is called and fails half-way."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._calls, programs = folder / "roots", folder / "calls", folder / "bin"
        programs.mkdir()
        (programs / "debootstrap").write_text(FAILING)
        (programs / "debootstrap").chmod(0o755)
        (programs / "id").write_text("#!/bin/sh\necho 0\n")  # whoever runs the test
        (programs / "id").chmod(0o755)
        self._env = {
            **os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "CALLS": str(self._calls),
            "FAIRSHARE_ROOTS": str(self.folder),
        }  # fmt: skip

    def run(self) -> str:
        script = str(REPOSITORY / ".ci" / "roots")
        done = subprocess.run(["sh", script], env=self._env, capture_output=True, text=True, check=True)
        return done.stderr

    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines() if self._calls.exists() else []

    def finish(self, release: str, packages: str) -> None:
        (self.folder / release).mkdir(parents=True)
        (self.folder / release / "made-of").write_text(f"{packages}\n")


@pytest.fixture
def making(tmp_path: Path) -> Making:
    return Making(tmp_path)


def test_each_root_that_cannot_be_made_is_named_with_its_reason(making: Making) -> None:
    printed = making.run().splitlines()
    for line, release in zip(printed, ("trixie", "sid"), strict=True):
        assert f"the root of Debian {release} " in line
    assert all("Failed getting release file" in line for line in printed)
    assert len(printed) == len(making.calls()) == len(roots.root_packages())
    assert not list(making.folder.glob("*.half")), "nothing of a half one is left"
    assert not (making.folder / "trixie").exists()


def test_a_root_that_is_made_is_left_alone(making: Making) -> None:
    for release, packages in roots.root_packages().items():
        making.finish(release, packages)
    assert making.run() == ""
    assert making.calls() == []


def test_another_list_of_packages_makes_a_root_again_and_keeps_the_old_one_meanwhile(making: Making) -> None:
    packages = roots.root_packages()
    making.finish("trixie", "slurmctld of last year")
    making.finish("sid", packages["sid"])
    assert "the root of Debian trixie" in making.run()
    assert len(making.calls()) == 1
    assert (making.folder / "trixie").is_dir()


def test_what_a_run_that_was_killed_left_is_removed_first(making: Making) -> None:
    (making.folder / "sid.half/usr/bin").mkdir(parents=True)
    making.run()
    assert not (making.folder / "sid.half").exists()


def test_half_a_root_is_none(making: Making, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_ROOTS", str(making.folder))
    making.finish("sid", "slurmctld of last year")
    (making.folder / "trixie").mkdir()
    for release in ("trixie", "sid"):
        with pytest.raises(pytest.skip.Exception, match=f"no root of Debian {release} in .*: make schedulers"):
            roots.find_root(release)
    (making.folder / "trixie" / "made-of").write_text(roots.root_packages()["trixie"] + "\n")
    assert roots.find_root("trixie") == making.folder / "trixie"


def test_every_release_has_the_root_that_it_names() -> None:
    assert {one.root for one in releases.RELEASES.values()} - {""} == set(roots.root_packages())
