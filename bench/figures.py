"""Figures of convergence in process: tiles over a year from 10,000 entries, and requests of a live page."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.clock import stopped_clock, timed
from bench.report import BenchLine
from bench.series import AT, SLUG, build, build_series, p95, recompute, signed_in

if TYPE_CHECKING:
    from django.test import Client

    from apps.policies.models import Policy

N_ENTRIES, N_RECORDS = 10_200, 40_000  # with one division of exactly a hundred groups
N_PAGES, N_LIVE = 30, 200
GOAL_PANELS_S, GOAL_ONE_S, GOAL_TREE_S, GOAL_LIVE_S = 0.15, 0.15, 0.15, 0.002


def measure() -> list[BenchLine]:
    with stopped_clock(AT):
        return _measure()


def _measure() -> list[BenchLine]:
    policy = world()
    client = signed_in()
    panels, size = _figures(client, policy, "panels", {"range": "365", "section": "rest"})
    one, _size = _figures(client, policy, "over-time", {"range": "365"})
    tree, tree_size = _tree(client, policy)
    live, live_cpu_s = _live(client, policy)
    kilobytes = f"{size / 1e3:.0f} kB"
    return [
        _line("figure JSON of 24 tiles × 365 days, 95th percentile / 150 ms", panels, GOAL_PANELS_S, kilobytes),
        _line("figure JSON of an entry over a year, 95th percentile / 150 ms", one, GOAL_ONE_S),
        _line(
            "figure JSON of a tree of 10,000 entries, 95th percentile / 150 ms",
            tree,
            GOAL_TREE_S,
            f"{tree_size / 1e3:.0f} kB",
        ),
        _line(
            "live request without news, 95th percentile / 2 ms",
            live,
            GOAL_LIVE_S,
            f"304; {live_cpu_s * 1e3:.1f} ms of this process",
        ),
    ]


def world() -> Policy:
    """Built once, with a year of days and priorities of their end, at which the clock has been stopped."""
    from apps.policies.models import Policy

    known = Policy.objects.filter(slug=SLUG).first()
    if known is not None:
        return known
    policy, _n_buckets = build(N_ENTRIES, N_RECORDS)
    build_series(policy, AT)
    recompute(policy)
    return policy


def _figures(client: Client, policy: Policy, name: str, asked: dict[str, str]) -> tuple[list[float], int]:
    """Each time the figure of another group of 99."""
    from apps.policies.tree.stored import load_tree

    tree = load_tree(policy)
    groups = np.flatnonzero(tree.n_children == 99)
    seconds, size = [], 0
    for number in range(N_PAGES):
        at = int(groups[number * 7907 % len(groups)])
        address = f"/policy/{policy.slug}/convergence/figures/{name}"
        answer, took = timed(partial(client.get, address, asked | {"level": str(tree.uuid(at))}))
        if answer.status_code != 200 or answer.json()["empty"]:
            raise RuntimeError(f"{address} answered {answer.status_code}: {answer.content[:300]!r}")
        seconds.append(took)
        size = len(answer.content)
    return seconds[2:], size


def _tree(client: Client, policy: Policy) -> tuple[list[float], int]:
    """From the root down, each kind of picture in turn; bytes of the largest answer."""
    seconds, size = [], 0
    for number in range(N_PAGES):
        asked = {"kind": ("icicle", "treemap")[number % 2], "size": ("target", "actual")[number // 2 % 2]}
        address = f"/policy/{policy.slug}/icicle/figures/tree"
        answer, took = timed(partial(client.get, address, asked))
        if answer.status_code != 200 or answer.json()["empty"]:
            raise RuntimeError(f"{address} answered {answer.status_code}: {answer.content[:300]!r}")
        seconds.append(took)
        size = max(size, len(answer.content))
    return seconds, size


def _live(client: Client, policy: Policy) -> tuple[list[float], float]:
    """With what a process that serves keeps in memory; also the processor time of one request."""
    from django.test import override_settings

    from apps.priorities.serving import store

    with override_settings(FAIRSHARE_SNAPSHOT_POLL_S=3600.0):
        store.poll()
        address = f"/policy/{policy.slug}/live"
        tag = client.get(address)["ETag"]
        ask: Callable[[], Any] = partial(client.get, address, headers={"If-None-Match": tag})
        seconds = []
        began = time.process_time()
        for _ in range(N_LIVE):
            answer, took = timed(ask)
            if answer.status_code != 304:
                raise RuntimeError(f"{address} answered {answer.status_code}.")
            seconds.append(took)
    return seconds[10:], (time.process_time() - began) / N_LIVE


def _line(name: str, seconds: list[float], goal_s: float, more: str = "") -> BenchLine:
    text = f"{p95(seconds) * 1e3:.1f} ms, median {statistics.median(seconds) * 1e3:.1f} ms"
    return BenchLine(name, p95(seconds) / goal_s, 1.0, "; ".join(part for part in (text, more) if part))
