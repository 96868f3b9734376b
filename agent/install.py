"""Install this file as a service of the scheduler's host: program, token and unit, then start it."""

import os
import pwd
import re
import sys
from typing import Callable, NamedTuple

from agent.commands import Commands
from agent.files import replace_file
from agent.names import shown
from agent.orders import Orders
from agent.records import Refused
from agent.rest import TOKEN, Rest, checked_site

PROGRAM = "/opt/fairshare/fairshare-agent.pyz"
TOKEN_FILE = "/etc/fairshare/agent.token"  # noqa: S105 - a path
UNIT_FILE = "/etc/systemd/system/fairshare-agent.service"
SERVICE = "fairshare-agent"
USERS = {"slurm": "slurm", "gridengine": "sgeadmin", "htcondor": "condor"}
_RUN = (
    "/usr/bin/python3 /opt/fairshare/fairshare-agent.pyz run --server https://fairshare.example.org --scheduler head"
    " --token-file /etc/fairshare/agent.token --state /var/lib/fairshare-agent"
    " --first-values /run/fairshare-agent/first-values"
)
UNIT = f"""\
[Unit]
Description=Fairshare priorities for the jobs of this scheduler
Wants=network-online.target
After=network-online.target slurmctld.service

[Service]
User=slurm
ExecStart={_RUN}
StateDirectory=fairshare-agent
StateDirectoryMode=0700
RuntimeDirectory=fairshare-agent
Restart=on-failure
RestartSec=30
TimeoutStopSec=90
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
MemoryMax=1G

[Install]
WantedBy=multi-user.target
"""
_SCHEDULER = re.compile(r"^ExecStart=.*?\s--scheduler[ =][\"']?([\w.-]+)", re.ASCII | re.DOTALL | re.MULTILINE)
_PLAIN_SITE = re.compile(r"[\w.:/~%\[\]-]+", re.ASCII)  # what a unit has without quotes
BEFORE = ".before"  # what a unit that is replaced is kept as: systemd doesn't read it
_RUNS_SYSTEMD = "/run/systemd/system"
_MOST_UNIT_BYTES = 65_536


class Install(NamedTuple):
    """server, scheduler: as `run` has them. root: folder to write below, where nothing is started; "": this host."""

    server: str
    scheduler: str
    token: str
    program: str  # this file
    user: str = ""  # "": the usual one of the scheduler's kind
    root: str = ""
    replaces: bool = False  # the agent of another scheduler on this host


def read_piped_token() -> str:
    """The token on standard input. Raises: Refused if there is none."""
    text = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read(4096).strip()
    if not TOKEN.fullmatch(text):
        raise Refused("Standard input holds no token: one looks like fsh_…_….")
    return text


def install(wanted: Install, commands: Commands, say: Callable[[str], object]) -> bool:
    """Ask the site first, so that nothing is written for a token that it refuses. Returns whether the agent runs.

    Raises: Refused, ServerFailure or ServerAway: nothing was written. OSError: a file couldn't be written.
    """
    if not wanted.root and os.geteuid() != 0:
        raise Refused("Only root may install it: put sudo before python3.")
    if not wanted.program.endswith(".pyz"):
        raise Refused("Run the file fairshare-agent.pyz: it installs itself.")
    unit_before = _unit_before(wanted)
    site = checked_site(wanted.server).geturl()
    if not _PLAIN_SITE.fullmatch(site):
        raise Refused(f"--server {shown(site)} can't be written into a unit: give its plain address.")
    orders = Rest(site, wanted.scheduler, wanted.token).orders()
    user = wanted.user or USERS[orders.kind]
    owner = None if wanted.root else _user(user)
    with open(wanted.program, "rb") as file:
        program = file.read()
    _write(wanted.root + PROGRAM, program, 0o755)
    _write(wanted.root + TOKEN_FILE, wanted.token.encode() + b"\n", 0o600)
    if owner is not None:
        os.chown(TOKEN_FILE, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
    unit = unit_of(site, wanted.scheduler, user)
    if unit_before not in ("", unit):
        _write(wanted.root + UNIT_FILE + BEFORE, unit_before.encode("utf-8", "surrogateescape"), 0o644)
        say(f"The unit was another one, and is kept as {UNIT_FILE}{BEFORE}.")
    _write(wanted.root + UNIT_FILE, unit.encode(), 0o644)
    say(_describe(orders, wanted, user))
    if wanted.root or not os.path.isdir(_RUNS_SYSTEMD):
        say("Nothing is started here. As {}: {}".format(user, unit.split("ExecStart=")[1].partition("\n")[0]))
        return False
    for words in (["daemon-reload"], ["enable", SERVICE], ["restart", SERVICE]):
        commands.read(["systemctl", *words])
    say("It runs. Its first report is on the page within a minute.")
    return True


def unit_of(site: str, scheduler: str, user: str) -> str:
    """The systemd unit of one agent."""
    unit = UNIT.replace("User=slurm", "User=" + user).replace("--scheduler head", "--scheduler " + scheduler)
    return unit.replace("https://fairshare.example.org", site.replace("%", "%%"))


def _describe(orders: Orders, wanted: Install, user: str) -> str:
    where = f"{wanted.scheduler} at {wanted.server}"
    return f"Installed for {where}: {orders.kind}, mode {orders.mode}, as the user {user}."


def _unit_before(wanted: Install) -> str:
    """The unit that is there; "" without one. Raises: Refused if it isn't this scheduler's."""
    try:
        with open(wanted.root + UNIT_FILE, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(_MOST_UNIT_BYTES)
    except FileNotFoundError:
        return ""
    before = _SCHEDULER.search(text)
    if (before and before.group(1) == wanted.scheduler) or wanted.replaces:
        return text
    if before is None:
        raise Refused(f"{UNIT_FILE} is there, and names no scheduler: end it with --replace.")
    raise Refused(
        f"The agent of {before.group(1)} is installed on this host: end it with --replace, or use another host."
    )


def _user(name: str) -> "pwd.struct_passwd":
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise Refused(f"There is no user {name} on this host: name the scheduler's own with --user.")


def _write(path: str, content: bytes, mode: int) -> None:
    _make_folder(os.path.dirname(path))
    replace_file(path, content, mode)


def _make_folder(path: str) -> None:
    """The agent's user can read it, with any umask."""
    if not os.path.isdir(path):
        _make_folder(os.path.dirname(path))
        os.mkdir(path)
        os.chmod(path, 0o755)  # noqa: S103 - nothing secret is in a folder
