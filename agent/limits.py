"""Limits of the scheduler's accounts, GrpTRESMins and QOS: the site's order for them, and what Slurm lists and sets.

A limit is a table of settings: minutes by TRES, and the key `qos`, each as Slurm prints it; "" where it is not set.
"""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from agent import names
from agent.names import shown
from agent.records import ServerFailure, Unreadable

FORMAT = 1  # of the orders
QOS = "qos"
MOST_NAMED_ACCOUNTS = 1_000
MOST_SETTINGS = 20  # an account
MOST_MINUTES = 2**53
MOST_LAPSE_S = 90 * 86_400
SLURM_LIMIT_COLUMNS = "Cluster,Account,User,Partition,ParentName,GrpTRESMins,QOS"
_TRES = re.compile(r"[a-z]{1,20}(/[A-Za-z0-9_][A-Za-z0-9_.:-]{0,60})?", re.ASCII)
_MINUTES = re.compile(r"[0-9]{1,16}", re.ASCII)
_LISTED = re.compile(r"([^=\s]+)=([0-9]{1,20})([MGTPEZ]?)", re.ASCII)
_UNITS = "MGTPEZ"  # of memory and burst buffers, each 1,024 times the one before; minutes are of megabytes
_INVALID = (AttributeError, KeyError, OverflowError, TypeError, ValueError)  # of a document of another shape
Settings = Dict[str, str]


class LimitLine(NamedTuple):
    """The limit that an account gets. reason, since: why and since when, as the site says it."""

    account: str
    settings: Settings
    reason: str
    since: str


class LimitOrder(NamedTuple):
    """Limits of now, and the bounds that the owner of the scheduler gave.

    as_of: when the site computed it. lapse_s: longest time without a newer one. percent_a_day: part of the named
    accounts that may get a limit in 24 hours. canary: the only account that gets one in mode canary.
    """

    as_of: str
    lapse_s: float
    percent_a_day: float
    canary: Optional[str]
    accounts: Tuple[str, ...]
    lines: Tuple[LimitLine, ...]

    @property
    def most_a_day(self) -> int:
        """A part of the named accounts, rounded down, but one at least; 0 only for 0 %."""
        if not self.percent_a_day or not self.accounts:
            return 0
        return max(int(len(self.accounts) * self.percent_a_day // 100), 1)


class Account(NamedTuple):
    """An account with its own settings, not those of accounts above it. has_users: whether jobs can run under it."""

    name: str
    parent: str
    settings: Settings
    has_users: bool


class Accounts(NamedTuple):
    cluster: str
    rows: Dict[str, Account]

    def children(self) -> Dict[str, List[str]]:
        """Names by the account that they are directly below."""
        below: Dict[str, List[str]] = {}
        for row in self.rows.values():
            below.setdefault(row.parent, []).append(row.name)
        return below


def at_and_below(account: str, children: Dict[str, List[str]]) -> "frozenset[str]":
    chosen = {account}
    waiting = [account]
    while waiting:
        new = [name for name in children.get(waiting.pop(), []) if name not in chosen]
        chosen.update(new)
        waiting += new
    return frozenset(chosen)


class Jobs(NamedTuple):
    """Accounts with running jobs, and with any unfinished ones."""

    running: "frozenset[str]"
    unfinished: "frozenset[str]"


def read_limit_order(document: Any) -> Optional[LimitOrder]:
    """Read an order. Raises: ServerFailure if it is invalid, or of a format that this agent doesn't know."""
    if document is None:
        return None
    try:
        if document["format"] != FORMAT:
            raise ServerFailure(
                f"The limits are of format {shown(str(document['format']))}, and this agent knows {FORMAT}: get the"
                " agent of this release from the site."
            )
        order = LimitOrder(
            as_of=str(document["as_of"]),
            lapse_s=_number(document["lapse_s"], 60, MOST_LAPSE_S),
            percent_a_day=_number(document["percent_a_day"], 0, 100),
            canary=None if document["canary"] is None else str(document["canary"]),
            accounts=tuple(str(name) for name in document["accounts"]),
            lines=tuple(_line(each) for each in document["lines"]),
        )
    except _INVALID:
        raise ServerFailure("The orders can't be read: limit_order is wrong. Are agent and server of one release?")
    if len(order.accounts) > MOST_NAMED_ACCOUNTS or len({line.account for line in order.lines}) != len(order.lines):
        raise ServerFailure("The orders can't be read: limit_order names too many accounts, or one of them twice.")
    return order


def is_valid_line(document: Any) -> bool:
    """Whether an agent reads this line of an order."""
    try:
        _line(document)
    except _INVALID:
        return False
    return True


def _line(document: Any) -> LimitLine:
    settings = {str(name): str(_whole(minutes)) for name, minutes in document["grp_tres_mins"].items()}
    if not all(_TRES.fullmatch(name) for name in settings):
        raise ValueError("no TRES")
    qos = document["qos"] or ""
    if qos:
        if not names.PARTITION.fullmatch(qos):
            raise ValueError("no QOS")
        settings[QOS] = qos.lower()  # as Slurm stores it
    if not 0 < len(settings) <= MOST_SETTINGS:
        raise ValueError("no settings")
    return LimitLine(str(document["account"]), settings, shown(str(document["reason"]), 300), str(document["since"]))


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_MINUTES:
        raise ValueError("no minutes")
    return int(value)


def _number(value: Any, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise ValueError("outside its bounds")
    return float(value)


def limit_argv(cluster: str, account: str, settings: Settings) -> List[str]:
    """The command that sets these settings of one account, and clears those that are "". Raises: ValueError."""
    if not names.GROUP.fullmatch(account) or not names.GROUP.fullmatch(cluster) or not settings:
        raise ValueError(f"{shown(account)!r} can't go into a command")
    minutes = {name: value for name, value in settings.items() if name != QOS}
    for name, value in minutes.items():
        if not _TRES.fullmatch(name) or (value and not _MINUTES.fullmatch(value)):
            raise ValueError(f"{shown(name)}={shown(value)} can't go into a command")
    words = []
    if minutes:
        words.append("grptresmins=" + ",".join(f"{name}={value or -1}" for name, value in sorted(minutes.items())))
    if QOS in settings:
        if settings[QOS] and not names.PARTITION.fullmatch(settings[QOS]):
            raise ValueError(f"{shown(settings[QOS])!r} can't go into a command")
        words.append(f"qos={settings[QOS]}")
    where = ["where", f"name={account}", f"cluster={cluster}"]
    return ["sacctmgr", "--immediate", "modify", "account", *where, "set", *words]


def parse_accounts(text: str, cluster: str) -> Accounts:
    """Rows of `sacctmgr -nP show assoc wopl` with SLURM_LIMIT_COLUMNS.

    Raises: Unreadable, also without root, which every cluster has: with PrivateData, Slurm lists nothing, and no error,
    to a user whose right was removed.
    """
    rows: Dict[str, Account] = {}
    with_users = set()
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) != 7:
            raise Unreadable(f"A row of sacctmgr has {len(cells)} columns: {shown(line)}")
        where, account, user, _partition, parent, minutes, qos = cells
        if where != cluster:
            continue
        if user:
            with_users.add(account)
            continue
        settings = dict(_settings(minutes, line))
        if qos:
            settings[QOS] = qos.lower()
        rows[account] = Account(account, parent, settings, False)
    if "root" not in rows:
        raise Unreadable(f"sacctmgr lists no account root of {shown(cluster)}: does the agent have operator rights?")
    return Accounts(cluster, {name: row._replace(has_users=name in with_users) for name, row in rows.items()})


def _settings(minutes: str, line: str) -> List[Tuple[str, str]]:
    pairs = [_LISTED.fullmatch(each) for each in minutes.split(",") if each]
    settings = [(pair[1], str(int(pair[2]) * 1_024 ** _UNITS.index(pair[3] or "M"))) for pair in pairs if pair]
    if len(settings) != len(pairs):
        raise Unreadable(f"sacctmgr lists GrpTRESMins that can't be read: {shown(line)}")
    return settings


def parse_jobs(text: str) -> Jobs:
    """Rows of squeue with the account and the state. Raises: Unreadable."""
    running, unfinished = set(), set()
    for line in text.splitlines():
        account, bar, state = line.partition("|")
        if not bar:
            raise Unreadable(f"A row of squeue has no state: {shown(line)}")
        unfinished.add(account)
        if state != "PENDING":
            running.add(account)
    return Jobs(frozenset(running), frozenset(unfinished))
