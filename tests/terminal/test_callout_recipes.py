"""Recipes for other schedulers (docs/examples/callout): each compiles, and does what it says with stand-in commands."""

from __future__ import annotations

import json
import os
import py_compile
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.material import missing
from tests.terminal.callout_site import FakeSite, factor_of, fake_site
from tests.terminal.test_callout import PROGRAM, PYTHONS, SOURCE, TOKEN

RECIPES = SOURCE.parents[1] / "docs" / "examples" / "callout"
SCRIPTS = sorted(RECIPES.glob("*.py"))


# Recipes wait as long as a scheduler may; a busy machine is no finding.
_WITHOUT_WAIT = """
for word; do
    shift
    case $before in --wait-s) ;; *) [ "$word" = --wait-s ] || set -- "$@" "$word" ;; esac
    before=$word
done
"""


class Host:
    """A scheduler's host: its commands print what a test says, and write down what they were called with."""

    def __init__(self, place: Path, site: FakeSite) -> None:
        self.place, self.site = place, site
        self.bin, self.log = place / "bin", place / "calls"
        self.bin.mkdir()
        token = place / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        options = f"--site {site.url} --policy grid --token-file {token} --cache-dir {place}/cache --wait-s 30"
        self.command("fairshare-callout", f'{_WITHOUT_WAIT}exec {sys.executable} {SOURCE} {options} "$@"')

    def command(self, name: str, script: str = "") -> None:
        path = self.bin / name
        noted = f'printf "%s\\n" "{name}$(printf " [%s]" "$@")" >> {self.log}\n'
        path.write_text(f"#!/bin/sh\n{'' if name == 'fairshare-callout' else noted}{script}\n")
        path.chmod(0o755)

    def run(self, recipe: str, *arguments: str, given: str = "", **more: str) -> str:
        environment = {"PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.place), **more}
        path = RECIPES / recipe
        command = [sys.executable, str(path)] if recipe.endswith(".py") else ["sh", str(path)]
        done = subprocess.run([*command, *arguments], input=given.encode(), env=environment, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode() + done.stderr.decode()

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with fake_site() as site:
        yield Host(tmp_path, site)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_each_script_compiles_for_an_old_python(path: Path, tmp_path: Path) -> None:
    code = "import ast, sys; ast.parse(open(sys.argv[1], encoding='utf-8').read())"
    subprocess.run([str(PYTHONS[0]), "-c", code, str(path)], check=True)
    py_compile.compile(str(path), cfile=str(tmp_path / "compiled"), doraise=True)


def test_each_call_uses_options_that_the_callout_has() -> None:
    known = {option for action in PROGRAM.parser()._actions for option in action.option_strings}
    n_calls = 0
    for path in [*SCRIPTS, RECIPES / "job_submit.lua", RECIPES / "esub.quota"]:
        for line in path.read_text().splitlines():
            if "fairshare-callout" in line and not line.lstrip().startswith(("#", "--")):
                n_calls += 1
                assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", line)) <= known, line
    assert n_calls >= 9


def test_the_page_lists_every_recipe_and_whether_it_was_tested() -> None:
    page = (SOURCE.parents[1] / "docs" / "recipe-others.md").read_text()
    for path in RECIPES.iterdir():
        (line,) = [each for each in page.splitlines() if f"callout/{path.name}" in each]
        assert re.search(r"\*(not )?tried", line), path.name


def test_the_jsv_follows_its_protocol(host: Host) -> None:
    talk = [
        *("START", "PARAM USER ann", "PARAM GROUP users", "PARAM P climate", "PARAM CONTEXT server", "BEGIN"),
        *("START", "PARAM USER -rf", "BEGIN", "START", "PARAM USER bob", "PARAM GROUP physics", "BEGIN", "QUIT"),
    ]
    answers = host.run("fairshare_jsv.py", given="".join(f"{line}\n" for line in talk)).splitlines()
    values = [round(1023 * factor_of(name)) - 1023 for name in ("annclimate", "bobphysics")]
    assert answers == [
        *("STARTED", f"PARAM p {values[0]}", "RESULT STATE CORRECT", "STARTED", "RESULT STATE ACCEPT"),
        *("STARTED", f"PARAM p {values[1]}", "RESULT STATE CORRECT"),
    ]
    assert all(-1023 <= value <= 0 for value in values)


def test_the_lua_script_sets_the_site_factor_and_escapes_names(host: Host) -> None:
    lua = shutil.which("lua5.3") or shutil.which("lua") or missing("lua5.3 isn't here", "apt-get install lua5.3")
    script = (
        (RECIPES / "job_submit.lua").read_text().replace("/usr/local/bin/", "").replace("--wait-s 0.2", "--wait-s 20")
    )
    names = [("ann", "climate"), ("root;rm -rf", "climate"), ("bob", "$(id)"), ("-x", "y")]
    calls = "".join(
        f'job = {{user_name = "{user}", account = "{group}"}} slurm_job_submit(job, nil, 0)'
        ' print(job.site_factor or "-")\n'
        for user, group in names
    )
    path = host.place / "driven.lua"
    path.write_text(f"slurm = {{SUCCESS = 0}}\n{script}\n{calls}")
    environment = {"PATH": f"{host.bin}:{os.environ['PATH']}", "HOME": str(host.place)}
    out = subprocess.run([lua, str(path)], env=environment, capture_output=True, check=True).stdout.decode().split()
    assert out == [str(round(1e5 * factor_of("annclimate"))), "-", str(round(1e5 * factor_of("bob"))), "-"]


def test_queued_jobs_of_openpbs_are_altered_by_value(host: Host) -> None:
    queued = {"Job_Owner": "ann@host", "job_state": "Q", "project": "_pbs_project_default"}
    jobs = {
        "1.pbs": queued,
        "2.pbs": queued,
        "3.pbs": {**queued, "job_state": "R"},
        "4.pbs": {**queued, "project": "p"},
    }
    (host.place / "listing").write_text(json.dumps({"Jobs": jobs}))
    host.command("qstat", f"cat {host.place}/listing")
    host.command("qalter")
    host.run("pbs_renew.py")
    assert host.calls()[1:] == [
        f"qalter [-l] [fairshare={factor_of('ann')}] [1.pbs] [2.pbs]",
        f"qalter [-l] [fairshare={factor_of('annp')}] [4.pbs]",
    ]


def test_pending_jobs_of_lsf_get_the_admin_factor_and_keep_it_without_numbers(host: Host) -> None:
    host.command("bjobs", "printf '17|ann|climate\\n18|bob|default\\n'")
    host.command("bmod")
    host.run("lsf_aps.py")
    assert host.calls()[1:] == [
        f"bmod [-aps] [admin={round(1000 * factor_of('annclimate'))}] [17]",
        f"bmod [-aps] [admin={round(1000 * factor_of('bobdefault'))}] [18]",
    ]
    host.site.behave = host.site.hang
    shutil.rmtree(host.place / "cache")
    host.command(
        "fairshare-callout", f'exec {sys.executable} {SOURCE} --site {host.site.url} --policy grid --quiet "$@"'
    )
    n_before = len(host.calls())
    host.run("lsf_aps.py")
    assert len(host.calls()) == n_before + 1, "bjobs alone"


def test_esub_prints_the_remaining_hours(host: Host) -> None:
    days = {"starts_on": "2026-01-01", "ends_on": "2026-12-31"}
    own = {"allocated": 10.0, "used": 6.0, "held": 0.0, "remaining": 4.0, **days}
    host.site.pages = {"allocations/board": {"own": own}}
    parameters = host.place / "parameters"
    for project, found in (("climate", "climate has 4.00 core-hours left."), ("$(id)", ""), ("a b", "")):
        parameters.write_text(f'LSB_SUB_QUEUE="normal"\nLSB_SUB_PROJECT_NAME="{project}"\n')
        assert host.run("esub.quota", LSB_SUB_PARM_FILE=str(parameters)).strip() == found


def test_weights_of_kueue_and_volcano(host: Host) -> None:
    host.command("kubectl")
    host.run("kube_weights.py", "kueue", "physics", "zoo")
    host.run("kube_weights.py", "volcano", "physics")
    kueue, _, volcano = host.calls()
    weight = f'{{"spec": {{"fairSharing": {{"weight": "{factor_of("physics"):.3f}"}}}}}}'
    assert kueue == f"kubectl [patch] [clusterqueue] [--type=merge] [-p] [{weight}] [--] [physics]"
    assert f'{{"spec": {{"weight": {1 + round(999 * factor_of("physics"))}}}}}' in volcano


def test_condor_factors_go_to_the_negotiator(host: Host) -> None:
    module = host.place / "htcondor2.py"
    module.write_text(
        "class Negotiator:\n"
        "    def getPriorities(self):\n"
        "        return [{'Name': each} for each in ('group_physics.ann@site', '<none>', 'bob@site')]\n"
        "    def setFactor(self, user, factor): print(user, factor)\n"
    )
    lines = host.run("condor_factor.py", PYTHONPATH=str(host.place)).splitlines()
    assert lines == [
        f"group_physics.ann@site {round(1 + 999 * (1 - factor_of('annphysics')), 1)}",
        f"bob@site {round(1 + 999 * (1 - factor_of('bob')), 1)}",
    ]


def test_maui_gets_the_targets_of_groups(host: Host) -> None:
    table = "path,target,shares\n/,1.0,\n/physics,0.6,60\n/physics/ann,0.5,1\n/biology,0.4,40\n/o dd,0.1,1\n/none,,0\n"
    lines = host.run("maui_targets.py", given=table).splitlines()
    assert [line for line in lines if "CFG" in line] == [
        "ACCOUNTCFG[physics] FSTARGET=60.00",
        "ACCOUNTCFG[biology] FSTARGET=40.00",
    ]


def test_flux_associations_get_our_factors(host: Host) -> None:
    path = host.place / "flux.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE association_table (username, bank, active, fairshare)")
        rows = [("ann", "climate", 1, 0.5), ("bob", "physics", 1, 0.5), ("old", "physics", 0, 0.5)]
        database.executemany("INSERT INTO association_table VALUES (?, ?, ?, ?)", rows)
    host.run("flux_fairshare.py", str(path))
    with sqlite3.connect(path) as database:
        found = dict(database.execute("SELECT username, fairshare FROM association_table"))
    assert found == {"ann": factor_of("annclimate"), "bob": factor_of("bobphysics"), "old": 0.5}
