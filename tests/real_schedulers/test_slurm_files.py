"""Commands and dumps are read as a real Slurm obeys, loads and writes them."""

from __future__ import annotations

import re

import pytest

from apps.policies.formats.registry import get_format
from apps.policies.formats.slurm_tree import fit, write
from apps.policies.publishing.direct import tree_of_document
from apps.policies.settings import PolicySettings
from tests.policies.formats.round_trip import read
from tests.policies.formats.slurm_dumps import SHARES, dump
from tests.policies.formats.test_sacctmgr import HEAD, LOADED
from tests.policies.formats.test_sacctmgr_script import ACCOUNT, APPLIED
from tests.real_schedulers.enclosure import HOME
from tests.real_schedulers.slurm_site import CLUSTER, SlurmSite

pytestmark = [pytest.mark.schedulers, pytest.mark.timeout(600)]

# What a shell or a copied session adds, which `sacctmgr` alone doesn't read.
_OF_SHELLS = re.compile(
    r"sacctmgr|\
|^set -e|PreserveCaseUser",
    re.MULTILINE,
)
_TWO_CASES = "add user JDoe account=physics\nadd user jdoe account=physics"  # slurmdbd here keeps no case
COMMANDS = [
    lines for lines, wanted in APPLIED if wanted is not None and not _OF_SHELLS.search(lines) and lines != _TWO_CASES
]
# Load refuses these here: QOS and types of TRES that the site lacks or that have no quotes, # in a value, blanks before
# a key. And this slurmdbd keeps no letter case.
_NOT_LOADED = re.compile(r"gres/gpu:|PI #|long|\n  Fair|JDoe")
LINES = [lines for lines, _wanted in LOADED if not _NOT_LOADED.search(lines)]
# Later releases take a comma that stands alone for a name, and refuse the command.
_LONE_COMMA = " , "


@pytest.fixture(autouse=True)
def empty(slurm: SlurmSite) -> None:
    """A database without accounts of another test and without a cluster: commands that name none concern all."""
    slurm.stop("slurmctld")
    slurm.empty_accounting()
    slurm.sacctmgr("delete", "cluster", CLUSTER)


def shares_in(text: str, format: str = "sacctmgr") -> dict[str, float | None]:
    tree = read(format, text).tree
    return {path: tree.node(i).shares for i in range(1, len(tree)) if (path := tree.path(i)) != "/root"}


def dump_of(slurm: SlurmSite, cluster: str) -> str:
    slurm.sacctmgr("dump", cluster, f"file={HOME}/{cluster}.cfg")
    return (slurm.folder / f"{cluster}.cfg").read_text()


@pytest.mark.deep
def test_commands_have_the_effect_that_slurm_gives_them(slurm: SlurmSite) -> None:
    differing = {}
    commands_here = [lines for lines in COMMANDS if not (slurm.release.root and _LONE_COMMA in lines)]
    for n, lines in enumerate(commands_here):
        name = f"c{n}x"
        slurm.sacctmgr("add", "cluster", name)
        text = (ACCOUNT + lines).replace("cluster=tux", f"cluster={name}") + "\n"
        commands = [line for line in text.splitlines() if not line.startswith("#")]
        done = slurm.attempt("sacctmgr", "--immediate", stdin="\n".join(commands) + "\n")
        there, ours = shares_in(dump_of(slurm, name)), shares_in(text, "sacctmgr-script")
        if there != ours:
            differing[lines] = (there, ours, done.stdout[-600:])
        slurm.sacctmgr("delete", "cluster", name)
    assert differing == {}, "\n".join(f"{key!r}: {value}" for key, value in differing.items())


@pytest.mark.deep
def test_lines_are_loaded_as_slurm_loads_them(slurm: SlurmSite) -> None:
    differing = {}
    for n, lines in enumerate(LINES):
        text = HEAD.replace("'demo'", f"'d{n}x'") + lines + "\n"
        (slurm.folder / "load.cfg").write_text(text)
        done = slurm.attempt("sacctmgr", "--immediate", "load", f"file={HOME}/load.cfg")
        there, ours = shares_in(dump_of(slurm, f"d{n}x")), shares_in(text)
        if there != ours:
            differing[lines] = (there, ours, done.stdout[-600:] + done.stderr[-300:])
        slurm.attempt("sacctmgr", "--immediate", "delete", "cluster", f"d{n}x")
    assert differing == {}, "\n".join(f"{key!r}: {value}" for key, value in differing.items())


@pytest.mark.deep
def test_a_script_without_a_dump_fills_its_own_cluster_alone(slurm: SlurmSite) -> None:
    slurm.sacctmgr("add", "cluster", "beside")
    before = dump_of(slurm, "beside")
    found = get_format("sacctmgr")
    tree = tree_of_document(read("sacctmgr", dump("22.05")), found)
    script = "".join(line for line in write(fit(tree), PolicySettings(), "fresh") if not line.startswith("#"))
    done = slurm.attempt("sacctmgr", "--immediate", stdin=script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert shares_in(dump_of(slurm, "fresh")) == {path: one for path, one in SHARES.items() if path != "/root"}
    assert dump_of(slurm, "beside") == before
    slurm.sacctmgr("delete", "cluster", "fresh")
    slurm.sacctmgr("delete", "cluster", "beside")
