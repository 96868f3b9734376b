"""How long a thread keeps Python's lock at a stretch: at each page and route of a large site, at the largest bodies
that a web process reads itself, and in each algorithm.

A thread beside it sleeps two milliseconds at a time. It is late by what the lock was kept, and by what it waited for a
processor, which the kernel counts and which is subtracted; nor is a stretch longer than the processor time that the
process took meanwhile. So other processes don't count. --entries and --records set the size of the site.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench import full_site, site_load
from bench.recompute import SLUG
from bench.report import BenchLine
from bench.site_routes import OTHER, Address, Readers, addresses, make_objects

GOAL_S = 0.050
_TICK_S = 0.002
_SWITCH_S = 0.0002  # as in a web process
_BODY_BYTES = 250_000  # of a request; longer ones are read by processes of their own
_MOST_LISTED = 8


class LockWatch(threading.Thread):
    """Measures the longest stretch for which other threads of this process kept Python's lock."""

    def __init__(self) -> None:
        super().__init__(name="ticks", daemon=True)
        self._longest_s = 0.0
        self._is_over = threading.Event()

    def run(self) -> None:
        with Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").open() as waits:
            while not self._is_over.is_set():
                began_s, cpu_s, waited_s = time.monotonic(), time.process_time(), _waited_s(waits)
                time.sleep(_TICK_S)
                late_s = time.monotonic() - began_s - _TICK_S - (_waited_s(waits) - waited_s)
                self._longest_s = max(self._longest_s, min(late_s, time.process_time() - cpu_s))

    def during(self, work: Callable[[], Any]) -> float:
        """Longest stretch in seconds while the work runs."""
        time.sleep(3 * _TICK_S)  # what came before has ended
        self._longest_s = 0.0
        work()
        time.sleep(3 * _TICK_S)
        return self._longest_s

    def end(self) -> None:
        self._is_over.set()
        self.join()


def _waited_s(waits: Any) -> float:
    """How long this thread has waited for a processor in all."""
    waits.seek(0)
    return int(waits.read().split()[1]) / 1e9


def measure_large() -> Iterator[BenchLine]:
    from django.core.management import call_command

    from apps.cli.stack.prepare import describe_api
    from apps.core.clock import now

    call_command("collectstatic", interactive=False, verbosity=0)
    describe_api()
    full_site.build(site_load.N_ENTRIES, site_load.N_RECORDS, now().replace(second=0, microsecond=0))
    objects, readers = make_objects()
    yield from measure_site(addresses(objects)[0], readers)


def measure_site(chosen: list[Address], readers: Readers) -> Iterator[BenchLine]:
    from apps.runs.memory import spare_collector

    before_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    watch = LockWatch()
    watch.start()
    try:
        for address in chosen:  # what is loaded once is loaded before a process takes requests, or is listed elsewhere
            _ask(address, readers)
        spare_collector()  # as a web process does once it serves
        yield _line("pages and routes", {each.route: watch.during(partial(_ask, each, readers)) for each in chosen})
        yield _line("bodies of 250 kB", {name: watch.during(work) for name, work in _bodies(readers).items()})
        yield _line("algorithms", {name: watch.during(work) for name, work in _computations().items()})
    finally:
        watch.end()
        sys.setswitchinterval(before_s)


def _line(what: str, stretches: dict[str, float]) -> BenchLine:
    longest = sorted(stretches.items(), key=lambda each: -each[1])
    over = [f"{name} {held_s * 1e3:.0f} ms" for name, held_s in longest if held_s > GOAL_S]
    detail = f"{len(over)} of {len(stretches)} keep it longer; {site_load.N_ENTRIES:,} entries"
    return BenchLine(
        f"longest stretch with Python's lock, {what} / {GOAL_S * 1e3:g} ms",
        longest[0][1] / GOAL_S,
        1.0,
        "; ".join([detail, *(over[:_MOST_LISTED] or [f"longest: {longest[0][0]} {longest[0][1] * 1e3:.0f} ms"])]),
    )


def _ask(address: Address, readers: Readers) -> None:
    from django.test import Client

    response = Client(headers={"Host": "localhost", **readers.headers(address)}).get(address.path)
    for _piece in response if response.streaming else ():
        pass
    response.close()


def _bodies(readers: Readers) -> dict[str, Callable[[], Any]]:
    from django.test import Client

    client = Client(headers={"Host": "localhost", "Authorization": f"Bearer {readers.token}"})
    operation = {"op": "set_shares", "entry": OTHER, "shares": 2}
    operations = json.dumps([operation] * (_BODY_BYTES // len(json.dumps(operation)) - 1))
    names = json.dumps([f"u{n}-0" for n in range(10_000)])[: _BODY_BYTES - 100]
    return {
        "operations": lambda: client.post(
            f"/api/v1/policies/{SLUG}/changesets",
            f'{{"reason": "bench", "base_revision": 1, "operations": {operations}}}',
            content_type="application/json",
        ),
        "look-ups": lambda: client.post(
            f"/api/v1/policies/{SLUG}/priorities/lookup",
            f'{{"accounts": {names}}}',
            content_type="application/json",
        ),
    }


def _computations() -> dict[str, Callable[[], Any]]:
    """Each algorithm on the policy's tree, with usage of every leaf."""
    from apps.engine.algorithms import all_algorithms, compute
    from apps.policies.models import Policy
    from apps.policies.tree.stored import load_tree

    tree = load_tree(Policy.objects.get(slug=SLUG)).engine_tree()
    usage = np.where(tree.child_count > 0, 0.0, np.random.default_rng(75).random(tree.n_entries))
    return {name: partial(compute, tree, usage, algorithm=name) for name in all_algorithms()}
