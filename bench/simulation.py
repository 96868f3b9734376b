"""The grid of the evaluation: six sites of 100 processors, seven streams, 72 hours; started jobs per processor second.

The anchor is a loop in plain Python that can do this one case and nothing else.
"""

from __future__ import annotations

import heapq
import json
import random
import time
from pathlib import Path
from typing import Any

from apps.contrib.lab import simulation
from apps.contrib.lab.simulation import simulate
from apps.engine import fast
from bench.report import BenchLine

ROUNDS = 5
FLOOR_PER_S, FLOOR_FAST_PER_S, AIM_PER_S = 50_000, 150_000, 300_000
SCENARIO = "converge-active"


def measure() -> list[BenchLine]:
    """Fastest of several interleaved rounds, in processor time."""
    scenario = json.loads((Path(simulation.__file__).parent / "scenarios" / f"{SCENARIO}.json").read_text())
    ways = {"plain Python": False} | ({"machine code": True} if fast.IS_INSTALLED else {})
    jobs = 0
    for is_fast in ways.values():
        _, jobs = _seconds(scenario, is_fast=is_fast)  # compile, or read from disk what was compiled
    anchor_s = float("inf")
    best_s = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        began = time.process_time()
        anchor_jobs = hard_wired_loop()
        anchor_s = min(anchor_s, time.process_time() - began)
        for way, is_fast in ways.items():
            best_s[way] = min(best_s[way], _seconds(scenario, is_fast=is_fast)[0])
    lines = []
    for way, is_fast in ways.items():
        per_s, anchor_per_s = jobs / best_s[way], anchor_jobs / anchor_s
        floor = FLOOR_FAST_PER_S if is_fast else FLOOR_PER_S
        detail = f"{per_s:,.0f} started jobs/s of processor time, aim {AIM_PER_S:,}"
        lines.append(BenchLine(f"{floor:,} jobs/s / 600 processors simulated, {way}", floor / per_s, 1.0, detail))
        detail = f"beside {anchor_per_s:,.0f} jobs/s of a loop for this case alone"
        lines.append(
            BenchLine(f"600 processors simulated, {way} / hard-wired loop", anchor_per_s / per_s, None, detail)
        )
    return lines


def _seconds(scenario: dict[str, Any], *, is_fast: bool) -> tuple[float, int]:
    with fast.switched(is_fast):
        began = time.process_time()
        started = int(simulate(scenario)["jobs"]["started"])
        return time.process_time() - began, started


_TARGET_IN_VO = (0.5, 0.3, 0.2)
_TARGET_IN_B1 = (0.5, 0.3, 0.2)


def hard_wired_loop(hours: float = 72.0) -> int:
    """Started jobs; everything about the case is written into the loop, active usage, refreshed once a minute."""
    draw = random.Random(1).random
    end_s, n_sites = hours * 3600, 6
    arrivals = sorted((15 * (draw() + k), leaf) for leaf in range(7) for k in range(int(end_s / 15)))
    free = [100] * n_sites
    waiting = [[0] * 7 for _ in range(n_sites)]
    local = [[0.0] * 4 for _ in range(n_sites)]  # base and rate of both virtual organizations
    base, rate = [0.0] * 7, [0.0] * 7
    order_a, order_b, order_b1 = [0, 1, 2], [0, 6], [3, 4, 5]
    running: list[tuple[float, int, int]] = []
    n_started, next_arrival, refresh_s = 0, 0, 0.0
    while True:
        arrival_s = arrivals[next_arrival][0] if next_arrival < len(arrivals) else end_s
        if refresh_s <= arrival_s and (not running or refresh_s <= running[0][0]):
            if refresh_s >= end_s:
                return n_started
            usage = [base[leaf] + rate[leaf] * refresh_s for leaf in range(7)]
            sum_a, sum_b1 = sum(usage[:3]) or 1.0, sum(usage[3:6])
            sum_b = (sum_b1 + usage[6]) or 1.0
            order_a = sorted(range(3), key=lambda leaf: usage[leaf] / sum_a - _TARGET_IN_VO[leaf])
            order_b1 = sorted(range(3, 6), key=lambda leaf: usage[leaf] / (sum_b1 or 1.0) - _TARGET_IN_B1[leaf - 3])
            order_b = [3, 6] if 0.6 - sum_b1 / sum_b >= 0.4 - usage[6] / sum_b else [6, 3]
            refresh_s += 60.0
            continue
        if running and running[0][0] <= arrival_s:
            now_s, site, leaf = heapq.heappop(running)
            if now_s >= end_s:
                return n_started
            free[site] += 1
            books = local[site]
            books[leaf > 2] += now_s
            books[2 + (leaf > 2)] -= 1
            base[leaf] += now_s
            rate[leaf] -= 1
        else:
            if next_arrival >= len(arrivals):
                return n_started
            now_s, leaf = arrivals[next_arrival]
            next_arrival += 1
            site = int(draw() * n_sites)
            waiting[site][leaf] += 1
        queue = waiting[site]
        while free[site]:
            books = local[site]
            used_a, used_b = books[0] + books[2] * now_s, books[1] + books[3] * now_s
            is_a_waiting, is_b_waiting = any(queue[:3]), any(queue[3:])
            if not is_a_waiting and not is_b_waiting:
                break
            if is_a_waiting and (not is_b_waiting or 0.3 * (used_a + used_b) >= used_a):
                leaf = next(each for each in order_a if queue[each])
            else:
                within = [each for each in order_b1 if queue[each]]
                first = [6] if not within else within if order_b[0] == 3 or not queue[6] else [6]
                leaf = first[0]
            queue[leaf] -= 1
            free[site] -= 1
            books[leaf > 2] -= now_s
            books[2 + (leaf > 2)] += 1
            base[leaf] -= now_s
            rate[leaf] += 1
            heapq.heappush(running, (now_s + 3600 * (0.6 + 0.8 * draw()), site, leaf))
            n_started += 1
