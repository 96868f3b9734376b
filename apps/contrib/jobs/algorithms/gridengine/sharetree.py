"""Share-tree tickets: short-term targets of the nodes that have jobs, and the tickets of their jobs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from apps.contrib.jobs.algorithms.base import plain
from apps.contrib.jobs.algorithms.gridengine.case import Case, Job
from apps.contrib.jobs.algorithms.gridengine.line import Amount
from apps.contrib.jobs.algorithms.gridengine.owners import Directory, Node, Owner
from apps.engine.decay_functions import left_in_gridengine

MIN_USAGE = 1.0  # usage below this part of the long-term target counts as this part
NO_PART = 1e-300  # a smaller long-term target counts as none, because its reciprocal would not be finite


@lru_cache(maxsize=256)
def decay_factor(age_s: float, half_life_s: float) -> float:
    """The part of usage that Grid Engine keeps: k^(age/60), k = 1 − 60·ln 2/half_life; seconds, ages ≥ 0.

    A half-life of 0 or less keeps everything, one below 60·ln 2 s nothing. Source: apps.engine.decay.
    """
    if age_s <= 0:
        return 1.0
    return float(left_in_gridengine(np.asarray(age_s, dtype=np.float64), half_life_s))


def decayed(
    usage: Mapping[str, float], age_s: float, halftime_h: float, half_lives_min: Mapping[str, float]
) -> dict[str, float]:
    """Usage by resource after `age_s` seconds: by half-lives in minutes if listed, else by the halftime in hours."""
    return {
        name: amount * decay_factor(age_s, half_lives_min[name] * 60 if name in half_lives_min else halftime_h * 3600)
        for name, amount in usage.items()
    }


def combined(usage: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """One number from usage by resource: Σ w·usage / Σ w; 0 if the weights sum to 0."""
    total = math.fsum(weights.values())
    if total <= 0:
        return 0.0
    return sum(amount * (weights[name] / total) for name, amount in usage.items() if name in weights)


@dataclass(frozen=True)
class ShareTree:
    """The tree with the leaf of every job that has one, and the usage of every node, including idle ones."""

    root: Node
    leaf_of: Mapping[Job, Node]
    usage: Mapping[Node, float]
    tickets: float
    compensation_factor: float

    def populated(self, jobs: Sequence[Job]) -> Counter[Node]:
        """Number of these jobs at and below every node."""
        counts: Counter[Node] = Counter()
        for job in jobs:
            node = self.leaf_of.get(job)
            while node is not None:
                counts[node] += 1
                node = node.parent
        return counts


def build_share_tree(case: Case, jobs: Sequence[Job]) -> ShareTree | None:
    """Build the share tree with a leaf for every user of `default` who has jobs; None if it gives no tickets."""
    if case.root is None or case.config.share_tree_tickets <= 0:
        return None
    directory = Directory(case.root)
    leaf_of: dict[Job, Node] = {}
    for job in jobs:
        user, project = job.owners.get("user"), job.owners.get("project")
        leaf = directory.find(user.name if user else None, project.name if project else None)
        if leaf is not None:
            leaf_of[job] = leaf
    usage: dict[Node, float] = {}
    _measure(case, case.root, None, usage)
    config = case.config
    return ShareTree(case.root, leaf_of, usage, config.share_tree_tickets, config.compensation_factor)


def _measure(case: Case, node: Node, project: str | None, usage: dict[Node, float]) -> float:
    """Usage of a node; also fills `usage` below it: a project's own, a user's (by project below one), or sums."""
    is_project = node.is_project and project is None
    below = sum(_measure(case, child, node.name if is_project else project, usage) for child in node.children)
    if is_project:
        amount = _usage_of(case, case.projects.get(node.name))
    elif node.children:
        amount = below
    else:
        amount = _usage_of(case, case.users.get(node.name), project)
    usage[node] = amount
    return amount


def _usage_of(case: Case, owner: Owner | None, project: str | None = None) -> float:
    if owner is None:
        return 0.0
    config = case.config
    amounts = owner.usage if project is None else owner.project_usage.get(project, {})
    return combined(decayed(amounts, case.usage_age_s, config.halftime_h, config.half_lives_min), config.usage_weights)


@dataclass(frozen=True)
class Target:
    """Targets of a node: the long-term part of the whole, the short-term part among its siblings and of the whole."""

    overall_long: float
    short: float
    overall_short: float


def find_targets(tree: ShareTree, populated: Mapping[Node, int]) -> dict[Node, Target]:
    """Short-term targets of the nodes with jobs.

    ltt = shares/Σ shares, shr = shares²/max(usage, oltt), stt = shr/Σ shr among siblings with jobs; oltt and ostt are
    the products from the root. A node whose ostt is beyond c·oltt has shr divided by ostt/(c·oltt), once.
    """
    targets = {tree.root: Target(1.0, 1.0, 1.0)}
    waiting = [tree.root]
    while waiting:
        node = waiting.pop()
        active = [child for child in node.children if populated.get(child)]
        targets.update(_divide(tree, active, targets[node]))
        waiting.extend(active)
    return targets


def _divide(tree: ShareTree, active: list[Node], parent: Target) -> dict[Node, Target]:
    """Targets of siblings with jobs from that of their parent."""
    all_shares = sum(node.shares for node in active)
    oltt = {node: parent.overall_long * (node.shares / all_shares if all_shares > 0 else 0.0) for node in active}
    shr = {node: _claim(node.shares, all_shares, tree.usage[node], oltt[node]) for node in active}
    stt = _parts(shr)
    compensated = _compensate(tree, shr, oltt, {node: parent.overall_short * stt[node] for node in active})
    if compensated:
        stt = _parts(shr | compensated)
    return {node: Target(oltt[node], stt[node], parent.overall_short * stt[node]) for node in active}


def _claim(shares: float, all_shares: float, usage: float, oltt: float) -> float:
    """shares²/max(usage, oltt), scaled by a power of two near the siblings' sum: same bits, never infinite."""
    if oltt < NO_PART:
        return 0.0
    part = math.ldexp(shares, -math.frexp(all_shares)[1])
    return part * part / max(usage, MIN_USAGE * oltt)


def _compensate(
    tree: ShareTree, shr: Mapping[Node, float], oltt: Mapping[Node, float], ostt: Mapping[Node, float]
) -> dict[Node, float]:
    """Reduce weights of nodes that would get more than `compensation_factor` times their long-term part."""
    limit = {node: tree.compensation_factor * part for node, part in oltt.items()}
    return {node: shr[node] / (ostt[node] / limit[node]) for node in shr if 0 < limit[node] < ostt[node]}


def _parts(weights: Mapping[Node, float]) -> dict[Node, float]:
    total = sum(weights.values())
    return {node: weight / total if total > 0 else 0.0 for node, weight in weights.items()}


def share_running(
    tree: ShareTree, running: Sequence[Job], targets: Mapping[Node, Target], populated: Mapping[Node, int]
) -> dict[Job, Amount]:
    """Tickets of running jobs from their leaf's part: evenly, or by job shares; truncated to integers."""
    shares_at: dict[Node, float] = {}
    for job in running:
        if job in tree.leaf_of:
            shares_at[tree.leaf_of[job]] = shares_at.get(tree.leaf_of[job], 0.0) + job.job_share
    amounts: dict[Job, Amount] = {}
    for job in running:
        leaf = tree.leaf_of.get(job)
        if leaf is None:
            amounts[job] = Amount(0.0, "0 (the share tree has no node for this job)")
            continue
        part = targets[leaf].overall_short * tree.tickets
        whole = f"{plain(targets[leaf].overall_short)} × {plain(tree.tickets)}"
        if shares_at[leaf] > 0:
            exact = job.job_share * part / shares_at[leaf]
            text = f"floor({plain(job.job_share)} × {plain(part)} / {plain(shares_at[leaf])})"
            amounts[job] = Amount(float(int(exact)), f"{text} (node {leaf.path}: {whole}, by job shares, cut off)")
        else:
            text = f"{whole} / {populated[leaf]}"
            amounts[job] = Amount(part / populated[leaf], f"{text} (node {leaf.path}, divided by its jobs)")
    return amounts


@dataclass
class _Waiting:
    """A job during the bottom-up pass: its sort key and its value at the level reached."""

    job: Job
    sort: float
    earlier: float
    short: float = 0.0
    position: int = 1
    path: str = ""

    @property
    def key(self) -> tuple[bool, float, tuple[int, int]]:
        return self.job.state != "running", -self.sort, self.job.number


def share_pending(
    tree: ShareTree,
    jobs: Sequence[Job],
    targets: Mapping[Node, Target],
    populated: Mapping[Node, int],
    earlier: Mapping[Job, float] | None,
) -> dict[Job, Amount]:
    """Tickets of pending jobs: T · stt/position in the topmost group below the root, jobs sorted level by level.

    jobs: running and pending ones. earlier: tickets of policies before this one if it is in the hierarchy.
    """
    at: dict[Node, list[_Waiting]] = {}
    for job in jobs:
        if job in tree.leaf_of:
            before = earlier.get(job, 0.0) if earlier is not None else 0.0
            sort = before + 0.01 * job.job_share if earlier is not None else job.job_share
            at.setdefault(tree.leaf_of[job], []).append(_Waiting(job, sort, before))
    top = _cut_down(tree.root, populated)
    amounts = {job: Amount(0.0, "0 (the share tree has no node for this job)") for job in jobs}
    for waiting in _line_up(tree, top, targets, populated, at, is_top=True):
        value = waiting.short / waiting.position * tree.tickets
        text = f"{plain(waiting.short)} / {waiting.position} × {plain(tree.tickets)}"
        amounts[waiting.job] = Amount(value, f"{text} (position {waiting.position} in node {waiting.path})")
    return amounts


def _cut_down(root: Node, populated: Mapping[Node, int]) -> Node:
    """The node below which the tree branches; levels with a single populated child are skipped."""
    top = root
    while len(active := [child for child in top.children if populated.get(child)]) == 1:
        top = active[0]
    return top


def _line_up(
    tree: ShareTree,
    node: Node,
    targets: Mapping[Node, Target],
    populated: Mapping[Node, int],
    at: Mapping[Node, list[_Waiting]],
    *,
    is_top: bool,
) -> list[_Waiting]:
    """Jobs of a node in the order in which they would start, with the value of each; a branching top gives none."""
    line = list(at.get(node, ()))
    for child in node.children:
        if populated.get(child):
            line += _line_up(tree, child, targets, populated, at, is_top=False)
    if is_top and node not in at:
        return line
    line.sort(key=lambda waiting: waiting.key)
    position = 1
    for waiting in line:
        waiting.short, waiting.position, waiting.path = targets[node].short, position, node.path
        waiting.sort = waiting.earlier + targets[node].short / position * tree.tickets
        position += waiting.job.slots
    return line
