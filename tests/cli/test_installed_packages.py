"""A package brings an algorithm and an operator; a broken one is refused and named, no more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apps.priorities.checks import check_packages
from tests.conftest import REPOSITORY
from tests.example_package.wheel import build_wheel, install_wheel

POLICY = {
    "name": "root",
    "shares": 1,
    "children": [
        {
            "name": "physics",
            "shares": 3,
            "children": [{"name": "alice", "kind": "user", "shares": 1}, {"name": "bob", "kind": "user", "shares": 1}],
        },
        {"name": "carol", "kind": "user", "shares": 1},
    ],
}
USAGE = {"/physics/alice": 300, "/physics/bob": 30, "/carol": 100}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """The example in a folder of its own, with `--deep` installed by pip; nothing is fetched or needed to build it."""
    target = tmp_path_factory.mktemp("installed")
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"))
    install_wheel(wheel, target, with_pip=bool(pytestconfig.getoption("deep")))
    return target


def broken(folder: Path, name: str, code: str, entry_points: str) -> Path:
    """A package as an installer leaves it: a module, and beside it what it announces."""
    (folder / f"{name}.py").write_text(code)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(entry_points)
    return folder


def manage(*arguments: str, path: Path, given: Any = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which alone sees the packages on its path."""
    return subprocess.run(
        [sys.executable, REPOSITORY / "manage.py", *arguments],
        input=json.dumps(given),
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(path)},
        cwd=REPOSITORY,
    )


def case(**algorithm: Any) -> dict[str, Any]:
    return {"id": "x", "algorithm": algorithm, "policy": POLICY, "usage": USAGE}


def test_an_installed_algorithm_and_operator_are_used_by_name(installed: Path) -> None:
    found = manage(
        "compute", "-", path=installed, given=[case(name="least-used"), case(name="aequus", operator="halfway")]
    )
    assert found.stderr == ""
    least, halfway = json.loads(found.stdout)
    assert least["algorithm"] == {"name": "least-used", "unit": 3600.0}
    assert {path: node["rank"] for path, node in least["nodes"].items()} == {
        "/physics": None,
        "/physics/alice": 3,
        "/physics/bob": 1,
        "/carol": 2,
    }
    assert least["nodes"]["/carol"]["used_per_share"] == 400
    assert halfway["nodes"]["/physics"]["priority"] == (0.75 - 330 / 430) / 2


def test_the_names_of_an_installed_package_are_unknown_without_it(tmp_path: Path) -> None:
    found = manage("compute", "-", path=tmp_path, given=[case(name="least-used"), case(name="aequus")])
    assert found.returncode == 2
    assert "'least-used'" in found.stderr
    assert len(json.loads(found.stdout)) == 1


BROKEN = {
    "import_error": (
        "import there_is_no_such_module\n",
        "[fairshare.algorithms]\nlost = import_error:LOST\n",
        ["import-error", "import_error:LOST", "ModuleNotFoundError"],
    ),
    "exits": (
        "raise SystemExit(3)\n",
        "[fairshare.algorithms]\nlost = exits:LOST\n",
        ["SystemExit: 3"],
    ),
    "wrong_protocol": (
        "class Lost:\n    name = 'lost'\nLOST = Lost()\n",
        "[fairshare.algorithms]\nlost = wrong_protocol:LOST\n",
        ["label"],
    ),
    "a_class": (
        "class Lost: ...\n",
        "[fairshare.algorithms]\nlost = a_class:Lost\n",
        ["a_class:Lost"],
    ),
    "computes_nonsense": (
        "from fairshare_example import LeastUsed\n"
        "class Lost(LeastUsed):\n    name = 'lost'\n"
        "    def compute(self, *given):\n        return 1 / 0\nLOST = Lost()\n",
        "[fairshare.algorithms]\nlost = computes_nonsense:LOST\n",
        ["ZeroDivisionError"],
    ),
}


def test_broken_packages_are_refused_by_name_and_everything_else_works(installed: Path, tmp_path: Path) -> None:
    for n, (name, (code, entry_points, _named)) in enumerate(BROKEN.items()):
        lost = f"lost-{n}"
        broken(tmp_path, name, code.replace("'lost'", f"'{lost}'"), entry_points.replace("lost =", f"{lost} ="))
    path = Path(f"{tmp_path}{os.pathsep}{installed}")
    asked = [*(f"lost-{n}" for n in range(len(BROKEN))), "least-used", "aequus"]
    found = manage("compute", "-", path=path, given=[case(name=name) for name in asked])
    assert found.returncode == 2
    for n, (name, (_code, _entry_points, named)) in enumerate(BROKEN.items()):
        (line,) = [line for line in found.stderr.splitlines() if f"'lost-{n}'" in line]
        assert [each for each in (name.replace("_", "-"), *named) if each not in line] == [], line
    assert [answer["algorithm"]["name"] for answer in json.loads(found.stdout)] == ["least-used", "aequus"]


# A slip of the pen in one of our groups, a group that there never was, and one of another project.
OF_NO_GROUP = (
    "[fairshare.operator]\nhalf = slip:HALFWAY\n[fairshare.aging]\nown = slip:HALFWAY\n[other.group]\na = slip:A\n"
)
TAKEN = (
    "[fairshare.algorithms]\naequus = taken:LEAST_USED\nleast-used = taken:LEAST_USED\nother = taken:LEAST_USED\n"
    "[fairshare.operators]\nrelative-3 = taken:HALFWAY\nseven = taken:NUMBER\n"
    "[fairshare.accounting_formats]\nswf = taken:MINUTES\n"
)


@pytest.fixture(scope="module")
def warnings(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the system check says of packages with wrong entry points, of each kind one."""
    folder = tmp_path_factory.mktemp("wrong")
    broken(folder, "taken", "from fairshare_example import *\nNUMBER = 7\n", TAKEN)
    broken(folder, "slip", "from fairshare_example import *\n", OF_NO_GROUP)
    checked = manage("check", path=Path(f"{folder}{os.pathsep}{installed}"))
    assert checked.returncode == 0
    return checked.stderr.splitlines()


@pytest.mark.deep
def test_the_system_check_names_each_rejected_entry_point(warnings: list[str]) -> None:
    warned = [line for line in warnings if "fairshare.W001" in line]
    assert len(warned) == 6
    for named in (
        ("fairshare.algorithms", "'aequus'"),
        ("fairshare.algorithms", "'least-used'", "fairshare-example"),
        ("fairshare.algorithms", "'least-used'", "'other'"),
        ("fairshare.operators", "'relative-3'"),
        ("fairshare.operators", "Operator", "int"),
        ("fairshare.accounting_formats", "'swf'"),
    ):
        assert sum(all(each in line for each in named) for line in warned) == 1, named
    unread = [line for line in warnings if "fairshare.W003" in line]
    assert len(unread) == 2
    assert all("Package slip" in line for line in unread)
    assert any("'fairshare.operator'" in line for line in unread)
    assert "fairshare.operators, " in "\n".join(warnings)


def test_an_installed_accounting_format_is_recognised_and_read(installed: Path) -> None:
    program = (
        "import io, sys\nfrom datetime import UTC, datetime\n"
        "from apps.usage.parsers.base import Reading\nfrom apps.usage.parsers.registry import FORMATS, format_of\n"
        "data = sys.stdin.buffer.read()\n"
        "(piece,) = format_of('auto', data).parse(io.BytesIO(data), Reading(at=datetime(2100, 1, 1, tzinfo=UTC)))\n"
        "print(list(FORMATS)[-1], piece.batch.cpus.tolist(), (piece.batch.end_us - piece.batch.start_us).tolist(),"
        " [(one.line, one.code) for one in piece.rejections])\n"
    )
    data = b"# minutes\n1 a g 1795000000 90 4\n2 b g yesterday 1 1\n"
    environ = {**os.environ, "PYTHONPATH": f"{installed}{os.pathsep}{REPOSITORY}"}
    ended = subprocess.run(
        [sys.executable, "-c", program], input=data, capture_output=True, check=False, env=environ, cwd=REPOSITORY
    )
    assert ended.stdout.decode() == "minutes [4.0] [5400000000] [(3, 'bad_line')]\n", ended.stderr.decode()


def test_without_packages_the_system_check_is_silent() -> None:
    assert check_packages() == []
