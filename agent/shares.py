"""The scheduler's own shares: list them, and set them line by line by a reviewed order.

Every line names the shares seen by the order's author, and is set only if they are unchanged. So an order may be
repeated after any interruption, and never overwrites a later change.
"""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from agent import names
from agent.names import shown
from agent.records import Problem, ServerFailure, Unreadable

PARENT = "parent"
MOST_LINES = 500  # a pass
MOST_ROWS = 200_000
_SHARES = re.compile(r"[0-9]{1,10}|" + PARENT, re.ASCII)
# Group (Slurm: account; Grid Engine: path in the share tree) and user. A user's association of one partition is named
# user:partition, as its entry at the site.
Key = Tuple[str, str]


class Share(NamedTuple):
    """One association, or one node of a share tree. user: "" for a group; partition: "" for all."""

    group: str
    user: str
    partition: str
    parent: str
    shares: str  # an integer, or "parent"

    @property
    def key(self) -> Key:
        return (self.group, f"{self.user}:{self.partition.lower()}" if self.partition else self.user)


class Shares(NamedTuple):
    """Every association of one cluster."""

    cluster: str
    rows: List[Share]

    def by_key(self) -> Dict[Key, str]:
        return {row.key: row.shares for row in self.rows}

    def in_partitions(self) -> Set[Key]:
        return {(row.group, row.user) for row in self.rows if row.partition}

    def document(self) -> Dict[str, Any]:
        return {"cluster": self.cluster, "rows": [dict(row._asdict()) for row in self.rows]}


class ShareLine(NamedTuple):
    number: int  # of the order
    group: str
    user: str
    before: str
    after: str
    agreed: str = ""  # what site and scheduler last had in common; another value than before if it was changed by hand

    @property
    def key(self) -> Key:
        return (self.group, self.user)


class ShareOrder(NamedTuple):
    """The remaining lines of an order."""

    id: int
    cluster: str
    lines: Tuple[ShareLine, ...]


class Outcome(NamedTuple):
    """Result of a line. code: done, already, missing, changed_meanwhile, or that of a Problem."""

    line: int
    code: str
    detail: str


class SetsShares(ABC):
    """The part of an adapter that `apply_order` uses."""

    @abstractmethod
    def read_shares(self) -> Optional[Shares]:
        """The shares used by the scheduler's own fair share; None if it has none."""

    @abstractmethod
    def set_share(self, cluster: str, line: ShareLine, in_partitions: bool) -> Optional[Problem]:
        """Set an existing association. in_partitions: it has further associations for single partitions."""


def digest_of(shares: Shares) -> str:
    return hashlib.sha256(json.dumps(shares.document(), sort_keys=True).encode()).hexdigest()


def read_order(document: Any) -> Optional[ShareOrder]:
    """Read an order. Raises: ServerFailure if it is invalid."""
    if document is None:
        return None
    try:
        lines = tuple(
            ShareLine(
                int(each["line"]),
                str(each["group"]),
                str(each["user"]),
                str(each["before"]),
                str(each["after"]),
                str(each.get("agreed", "")),
            )
            for each in document["lines"]
        )
        return ShareOrder(int(document["id"]), str(document["cluster"]), lines)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise ServerFailure("The orders can't be read: share_order is wrong. Are agent and server of one release?")


def apply_order(
    adapter: SetsShares,
    order: ShareOrder,
    there: Shares,
    before_setting: Optional[Callable[[List[ShareLine]], object]] = None,
    most: int = MOST_LINES,
) -> Tuple[List[Outcome], Shares]:
    """Apply an order; return the result of each line, verified by a new listing, and that listing.

    there: the listing before. before_setting: called once with the lines that will be set. Raises: Unreadable if shares
    can't be listed again; the next pass detects what was set.
    """
    now, in_partitions = there.by_key(), there.in_partitions()
    lines = order.lines[:most]
    without = {line.number: _without_sending(order, line, there.cluster, now) for line in lines}
    outcomes = {number: outcome for number, outcome in without.items() if outcome is not None}
    due = [line for line in lines if line.number not in outcomes]
    if due and before_setting is not None:
        before_setting(due)
    sent: List[Tuple[ShareLine, Optional[Problem]]] = []
    stopped: Optional[Problem] = None
    for line in due:
        if stopped is not None:
            outcomes[line.number] = Outcome(line.number, stopped.code, stopped.detail)
            continue
        problem = adapter.set_share(order.cluster, line, line.key in in_partitions)
        sent.append((line, problem))
        if problem is not None and problem.code in ("denied", "timeout"):
            stopped = problem  # the next one would fail in the same way
    if sent:
        there = _listed(adapter)
        now = there.by_key()
    for line, problem in sent:
        outcomes[line.number] = _verified(line, now.get(line.key), problem)
    return [outcomes[line.number] for line in lines], there


def _without_sending(order: ShareOrder, line: ShareLine, cluster: str, now: Dict[Key, str]) -> Optional[Outcome]:
    if order.cluster != cluster:
        return Outcome(line.number, "refused", f"The order is for the cluster {shown(order.cluster)}.")
    if not _SHARES.fullmatch(line.after):
        return Outcome(line.number, "refused", f"{shown(line.after)} is no number of shares.")
    current = now.get(line.key)
    if current is None:
        return Outcome(line.number, "missing", "")
    if current == line.after:
        return Outcome(line.number, "already", "")
    if current != line.before:
        return Outcome(line.number, "changed_meanwhile", f"It has {shown(current)}, and had {shown(line.before)}.")
    return None


def _verified(line: ShareLine, now: Optional[str], problem: Optional[Problem]) -> Outcome:
    """Verify a line by a new listing: commands of some schedulers succeed and change nothing."""
    if now == line.after:
        return Outcome(line.number, "done", "")
    if problem is not None:
        return Outcome(line.number, problem.code, problem.detail)
    return Outcome(line.number, "refused", f"The scheduler still has {shown(now or 'nothing')}.")


def _listed(adapter: SetsShares) -> Shares:
    shares = adapter.read_shares()
    if shares is None:
        raise Unreadable("The scheduler lists no shares any more.")
    return shares


SLURM_COLUMNS = "Cluster,Account,User,Partition,ParentName,Share"


def slurm_argv(cluster: str, line: ShareLine, in_partitions: bool) -> List[str]:
    """The command that changes the shares of one association only. Raises: ValueError for an invalid name.

    Without a partition, the command also changes the user's associations of single partitions (22.05.8).
    """
    _check(names.GROUP, line.group)
    _check(names.GROUP, cluster)
    who = ["account", "where", f"name={line.group}"]
    limited = ["partition=''"] if in_partitions else []
    if line.user:
        user, colon, partition = line.user.partition(":")
        _check(names.USER, user)
        who = ["user", "where", f"name={user}", f"account={line.group}"]
        if colon:
            _check(names.PARTITION, partition)
            limited = [f"partition={partition}"]
    _check(_SHARES, line.after)
    return ["sacctmgr", "--immediate", "modify", *who, f"cluster={cluster}", *limited, "set", f"fairshare={line.after}"]


def parse_associations(text: str, cluster: str) -> Shares:
    """Rows of `sacctmgr -nP show assoc` with SLURM_COLUMNS, without Slurm's own root."""
    rows: List[Share] = []
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) != 6:
            raise Unreadable(f"A row of sacctmgr has {len(cells)} columns: {shown(line)}")
        where, group, user, partition, parent, shares = cells
        if where != cluster or (group == "root" and user in ("", "root")):
            continue
        if not _SHARES.fullmatch(shares):
            raise Unreadable(f"sacctmgr lists the shares {shown(shares)} of {shown(group)}.")
        rows.append(Share(group, user, partition, parent, shares))
    return _bounded(cluster, rows)


NO_TREE = "no sharetree element"
_NODE = re.compile(r"(/[A-Za-z0-9_.@+-]+)+", re.ASCII)
_FIELD = re.compile(r"(id|name|type|shares|childnodes|version)=(.*)", re.ASCII)


def gridengine_argv(line: ShareLine) -> List[str]:
    """The command that changes one node; usage is unchanged. Raises: ValueError for an invalid name."""
    _check(_NODE, line.group)
    _check(_SHARES, line.after)
    return ["qconf", "-mstnode", f"{line.group}={line.after}"]


def parse_share_tree(text: str) -> Shares:
    """Nodes of `qconf -sstree` by path. Raises: Unreadable unless it is one complete tree."""
    nodes: Dict[str, Dict[str, str]] = {}
    node: Dict[str, str] = {}
    for line in text.splitlines():
        match = _FIELD.fullmatch(line.strip())
        if match is None or (match.group(1) != "id" and not node):
            raise Unreadable(f"A line of the share tree can't be read: {shown(line)}")
        if match.group(1) == "id":
            node = nodes[match.group(2)] = {"id": match.group(2)}
        node[match.group(1)] = match.group(2)
    rows: List[Share] = []
    level = [("0", "")]
    while level:
        id, path = level.pop()
        try:
            node = nodes.pop(id)
            below = [] if node["childnodes"] == "NONE" else node["childnodes"].split(",")
            here = f"{path}/{node['name']}" if id != "0" else ""
            if id != "0":
                rows.append(Share(here, "", "", path or "/", node["shares"]))
        except KeyError:
            raise Unreadable(f"The share tree has no whole node {shown(id)}.")
        level += [(child, here) for child in below]
    if nodes or not all(_SHARES.fullmatch(row.shares) for row in rows):
        raise Unreadable("The share tree is no tree, or its shares are no numbers.")
    return _bounded("", sorted(rows))


def _bounded(cluster: str, rows: Sequence[Share]) -> Shares:
    if len(rows) > MOST_ROWS:
        raise Unreadable(f"There are {len(rows)} associations, and the agent lists {MOST_ROWS} at most.")
    return Shares(cluster, list(rows))


def _check(pattern: "re.Pattern[str]", text: str) -> None:
    if not pattern.fullmatch(text):
        raise ValueError(f"{shown(text)!r} can't go into a command")
