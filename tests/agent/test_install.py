"""The agent installs itself: it asks the site first, and writes program, token and unit, or nothing."""

from __future__ import annotations

import io
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from agent import command_line, install
from agent.build import build
from agent.commands import Commands
from agent.records import Refused, ServerFailure
from apps.core.code_paths import REPOSITORY

TOKEN = "fsh_abc_" + "0" * 64


class _Site:
    """In place of REST: what it was asked with; the orders that it answers."""

    kind = "slurm"
    refuses = False

    def __init__(self, server: str, scheduler: str, token: str) -> None:
        self.asked = (server, scheduler, token)

    def orders(self) -> Any:
        if self.refuses:
            raise ServerFailure("refuses the token")
        return type("Orders", (), {"kind": self.kind, "mode": "shadow"})()


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> install.Install:
    monkeypatch.setattr(install, "Rest", _Site)
    program = tmp_path / "fairshare-agent.pyz"
    program.write_bytes(build())
    root = tmp_path / "root"
    return install.Install("https://fs.example/", "c1", TOKEN, str(program), root=str(root))


def _files(root: str) -> dict[str, tuple[int, bytes]]:
    return {
        "/" + str(path.relative_to(root)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in sorted(Path(root).rglob("*"))
        if path.is_file()
    }


def _install(wanted: install.Install) -> str:
    lines: list[str] = []
    assert install.install(wanted, Commands(), lines.append) is False, "below a folder nothing is started"
    return "\n".join(lines)


def test_the_unit_is_that_of_the_documentation() -> None:
    assert (REPOSITORY / "docs/examples/slurm/fairshare-agent.service").read_text() == install.UNIT


@pytest.mark.parametrize(("kind", "user"), [("slurm", "slurm"), ("gridengine", "sgeadmin"), ("htcondor", "condor")])
def test_program_token_and_unit_are_written(
    wanted: install.Install, monkeypatch: pytest.MonkeyPatch, kind: str, user: str
) -> None:
    monkeypatch.setattr(_Site, "kind", kind)
    assert user in _install(wanted)
    files = _files(wanted.root)
    unit = install.UNIT.replace("https://fairshare.example.org", "https://fs.example")
    unit = unit.replace("--scheduler head", "--scheduler c1").replace("User=slurm", f"User={user}")
    assert files == {
        install.PROGRAM: (0o755, build()),
        install.TOKEN_FILE: (0o600, TOKEN.encode() + b"\n"),
        install.UNIT_FILE: (0o644, unit.encode()),
    }
    again = wanted._replace(token=TOKEN[:-1] + "1")
    _install(again)
    assert _files(wanted.root)[install.TOKEN_FILE][1].endswith(b"1\n"), "repeated, it replaces"


def test_nothing_is_written_for_what_is_refused(wanted: install.Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Site, "refuses", True)
    with pytest.raises(ServerFailure):
        _install(wanted)
    monkeypatch.setattr(_Site, "refuses", False)
    with pytest.raises(Refused, match="pyz"):
        _install(wanted._replace(program=__file__))
    assert not os.path.exists(wanted.root)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(Refused, match="sudo"):
        install.install(wanted._replace(root=""), Commands(), print)
    _install(wanted)
    before = _files(wanted.root)
    with pytest.raises(Refused, match="c1"):
        _install(wanted._replace(scheduler="c2"))
    assert _files(wanted.root) == before
    _install(wanted._replace(scheduler="c2", replaces=True))
    assert b"--scheduler c2 " in _files(wanted.root)[install.UNIT_FILE][1]


def test_the_documented_command_is_one_that_the_parser_reads() -> None:
    guide = (REPOSITORY / "docs/schedulers.md").read_text()
    (words,) = re.findall(r"fairshare-agent\.pyz (install .+)", guide)
    options = command_line._parser().parse_args(words.split())
    assert (options.server, options.scheduler, options.root) == ("https://fairshare.example.org", "head", "")
    table = guide.split("| option of `install` |")[1].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(--\w+)", table, re.MULTILINE)) <= {f"--{name}" for name in vars(options)}


@pytest.mark.parametrize("text", ["", "nothing", TOKEN + "\nfsh_a_b"])
def test_standard_input_without_a_token_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    status = command_line.main(["install", "--server", "https://fs.example", "--scheduler", "c1"])
    assert status == command_line.USAGE
    assert "token" in capsys.readouterr().err


def _main(wanted: install.Install, monkeypatch: pytest.MonkeyPatch, *more: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(wanted.token))
    monkeypatch.setattr("sys.argv", [wanted.program])
    words = ["install", "--server", wanted.server, "--scheduler", wanted.scheduler, "--root", wanted.root, *more]
    umask = os.umask(0o022)
    try:
        return command_line.main(words)
    finally:
        os.umask(umask)


def test_the_user_of_the_agent_reaches_the_program(wanted: install.Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent hides what it writes from others; the folders of a service are open."""
    assert _main(wanted, monkeypatch) == command_line.DONE
    for path in (install.PROGRAM, install.TOKEN_FILE, install.UNIT_FILE):
        folders = [each for each in Path(wanted.root + path).parents if each.is_relative_to(wanted.root)]
        assert {stat.S_IMODE(each.stat().st_mode) for each in folders} == {0o755}
    assert stat.S_IMODE(os.stat(wanted.root + install.TOKEN_FILE).st_mode) == 0o600


def test_a_folder_named_by_a_path_of_here_is_one_to_write_below(
    wanted: install.Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _main(wanted._replace(root="image/"), monkeypatch) == command_line.DONE
    assert (tmp_path / f"image{install.UNIT_FILE}").is_file()
    roots: list[str] = []
    monkeypatch.setattr(command_line, "install", lambda wanted, *_: roots.append(wanted.root))
    _main(wanted._replace(root="/"), monkeypatch)
    assert roots == ["/"], "a folder, and not this host, where it would be started"


def test_a_refusal_of_the_site_is_one_line(
    wanted: install.Install, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_Site, "refuses", True)
    assert _main(wanted, monkeypatch) == command_line.FAILED
    assert capsys.readouterr().err.endswith(" refuses the token\n")


def test_a_unit_edited_by_hand_is_kept_beside_the_new_one(wanted: install.Install) -> None:
    _install(wanted)
    unit, kept = Path(wanted.root + install.UNIT_FILE), Path(wanted.root + install.UNIT_FILE + install.BEFORE)
    _install(wanted)
    assert not kept.exists(), "the same unit again"
    new, edited = unit.read_text(), unit.read_text().replace("MemoryMax=1G", "MemoryMax=4G\n# für grün\x00")
    unit.write_text(edited)
    assert str(install.UNIT_FILE + install.BEFORE) in _install(wanted)
    assert (unit.read_text(), kept.read_text()) == (new, edited)


@pytest.mark.parametrize(
    "before",
    [
        "[Service]\nExecStart=/usr/bin/python3 a.pyz run --scheduler=head --server x\n",
        "[Service]\nExecStart=/usr/bin/python3 a.pyz run \\\n  --scheduler 'head'\n",
        "# --scheduler c1\n[Service]\nExecStart=/usr/bin/python3 a.pyz run --scheduler c10\n",
        "# --scheduler c1\n[Service]\nExecStart=/usr/local/bin/own\n",
        "",  # masked: a link to /dev/null
    ],
)
def test_a_unit_of_something_else_stays(wanted: install.Install, before: str) -> None:
    unit = Path(wanted.root + install.UNIT_FILE)
    unit.parent.mkdir(parents=True)
    if before:
        unit.write_text(before)
    else:
        unit.symlink_to("/dev/null")
    with pytest.raises(Refused, match="--replace"):
        _install(wanted)
    assert (unit.read_text(), _files(wanted.root).keys() & {install.PROGRAM, install.TOKEN_FILE}) == (before, set())
    _install(wanted._replace(replaces=True))
    assert not unit.is_symlink()
    assert "--scheduler c1 " in unit.read_text()
    assert os.path.exists(f"{unit}{install.BEFORE}") == bool(before)


@pytest.mark.parametrize(
    "server", ["https://fs.example/a b", "https://fs.example/$HOME", 'https://fs.example/"', "https://fs.example/é"]
)
def test_an_address_that_a_unit_reads_otherwise_is_refused(wanted: install.Install, server: str) -> None:
    with pytest.raises(Refused, match="--server"):
        _install(wanted._replace(server=server))
    assert not os.path.exists(wanted.root)


def test_an_address_is_written_as_it_is_asked(wanted: install.Install) -> None:
    _install(wanted._replace(server=" https://fs.example/a%20b/\n"))
    unit = Path(wanted.root + install.UNIT_FILE).read_text()
    assert " --server https://fs.example/a%%20b --scheduler c1 " in unit, "systemd reads %% as %"
