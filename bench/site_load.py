"""Every page and REST route of a site of a million entries and ten million records, asked by eight readers at once.

A table by route is printed: processor time alone, of the web server with the database, at the first call of the process
and later, then p50 and p95 of the readers, who ask one thing after the other without a pause. Bulk answers, above a
megabyte, are asked alone. Then look-ups are asked beside recomputes, an import, a variant of the lab and an upload. At
last, the memory of each process is printed. --entries and --records set other sizes.
"""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from bench import full_site, lab
from bench.ingest import synthetic_log
from bench.recompute import SLUG, change_usage
from bench.report import BenchLine
from bench.site_routes import MEMBER, Address, Readers, addresses, make_objects
from bench.web_memory import PeakWatch, memory_sizes
from bench.web_server import processes_below, serving_processes, web_server

N_ENTRIES, N_RECORDS = 1_000_000, 10_000_000  # set by the options
N_READERS, N_PROCESSES = 8, 2
ROUNDS = 2  # of each reader, through all routes; 0: alone only
GOAL_S, GOAL_LOOKUP_S, GOAL_FIRST_S, GOAL_OWN_MB = 0.5, 0.02, 1.0, 600.0
_ALONE = 3
_BULK_BYTES = 1_000_000
_LOOKUPS_A_SECOND = 50
_UPLOADED_JOBS, _UPLOADED_BYTES = 1_000_000, 44_000_000
_ROOT = Path(__file__).resolve().parent.parent
_TICKS_S = os.sysconf("SC_CLK_TCK")


@dataclass
class Asked:
    """What one route took. first_cpu_s, cpu_s: of the server and the database, alone: after a start, and later."""

    address: Address
    status: int
    n_bytes: int
    first_s: float
    first_cpu_s: float = 0.0
    cpu_s: float = 0.0
    n_failed: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def is_bulk(self) -> bool:
        return self.n_bytes > _BULK_BYTES

    @property
    def p95_s(self) -> float:
        return quantile(self.seconds, 0.95)


def quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def measure_large() -> Iterator[BenchLine]:
    from django.core.management import call_command

    from apps.cli.stack.prepare import describe_api
    from apps.core.clock import now

    call_command("collectstatic", interactive=False, verbosity=0)
    describe_api()
    began = time.monotonic()
    full_site.build(N_ENTRIES, N_RECORDS, now().replace(second=0, microsecond=0))
    objects, readers = make_objects()
    chosen, left_out = addresses(objects)
    print(f"  built in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    with web_server(N_PROCESSES) as port:
        web = serving_processes()
        assert len(web) == N_PROCESSES, web
        with PeakWatch(web) as alone:
            asked = _ask_alone(port, chosen, readers)
        print(route_table(asked, left_out), file=sys.stderr, flush=True)
        pages = [each for each in asked if not each.is_bulk]
        with PeakWatch(web) as together:
            _ask_together(port, pages, readers)
        print(route_table(asked, left_out))
        yield from _lines(pages)
        yield _peak("while pages, routes and bulk answers are asked alone", alone.peak_mb)
        if ROUNDS:
            yield _peak(f"beside {N_READERS} readers", together.peak_mb)
        yield _memory()
        yield from _lookups(port, readers)
        print(_memory_table())


def _lines(pages: list[Asked]) -> Iterator[BenchLine]:
    slowest = max(pages, key=lambda each: each.p95_s)
    n_missed = sum(each.p95_s > GOAL_S for each in pages)
    n_failed = sum(each.n_failed for each in pages)
    size = f"{N_ENTRIES:,} entries, {N_RECORDS:,} records"
    yield BenchLine(
        f"p95 of the slowest page or route, {N_READERS if ROUNDS else 1} readers / {GOAL_S:g} s",
        slowest.p95_s / GOAL_S,
        1.0,
        f"{slowest.p95_s:.2f} s, {slowest.address.route}; {n_missed} of {len(pages)} miss it; {size}; "
        f"{n_failed} failed; load {os.getloadavg()[0]:.0f}",
    )
    slow_firsts = [each for each in pages if each.first_cpu_s >= GOAL_FIRST_S]
    yield BenchLine(
        f"pages and routes whose first answer after a start takes {GOAL_FIRST_S:g} s of processor time",
        len(slow_firsts),
        0,
        "; ".join(f"{each.address.route} {each.first_cpu_s:.1f} s" for each in slow_firsts),
    )
    costliest = max(pages, key=lambda each: each.cpu_s)
    yield BenchLine(
        "processor time of the costliest page or route, alone / 0.1 s",
        costliest.cpu_s / 0.1,
        None,
        f"{costliest.cpu_s:.2f} s, {costliest.address.route}; mean {statistics.mean(p.cpu_s for p in pages):.3f} s",
    )


def _peak(when: str, peak_mb: float) -> BenchLine:
    return BenchLine(
        f"most MB of its own of a web process, {when}",
        peak_mb,
        GOAL_OWN_MB,
        f"{peak_mb:.0f} MB; {N_ENTRIES:,} entries",
    )


def _memory() -> BenchLine:
    """Of what no file holds: mapped files are shared by all processes of a host."""
    own = max(memory_sizes(pid)["Anonymous"] for pid in serving_processes())
    return BenchLine(
        f"MB of its own of a web process, after all pages and routes{f' and {N_READERS} readers' if ROUNDS else ''}",
        own,
        GOAL_OWN_MB,
        f"{own:.0f} MB; {N_ENTRIES:,} entries",
    )


def _memory_table() -> str:
    """MB of each process of the site: what no file holds, all with files and shared memory, and its most so far."""
    rows = [f"{'process':<72} {'own MB':>7} {'all MB':>7} {'peak':>7}"]
    for pid in processes_below(os.getpid()):
        with suppress(OSError):  # one that has just ended
            title = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
            sizes, status = memory_sizes(pid), Path(f"/proc/{pid}/status").read_text()
            peak_kb = int(status.partition("VmHWM:")[2].split()[0])
            rows.append(f"{title[-72:]:<72} {sizes['Anonymous']:>7.0f} {sizes['Rss']:>7.0f} {peak_kb / 1024:>7.0f}")
    return "\n".join(rows)


def route_table(asked: list[Asked], left_out: list[str]) -> str:
    """By p95, the slowest first; then bulk answers, and the routes that this site cannot answer."""
    rows = [f"{'route':<84} {'KiB':>7} {'cpu ms':>7} {'first':>7} {'p50 ms':>7} {'p95 ms':>7}"]
    for each in sorted(asked, key=lambda each: each.p95_s, reverse=True):
        p50, p95 = (quantile(each.seconds, part) * 1e3 for part in (0.5, 0.95))
        mark = " bulk" if each.is_bulk else "!" if p95 > GOAL_S * 1e3 else ""
        mark += f" {each.n_failed} failed" if each.n_failed else ""
        rows.append(
            f"{each.address.route[:84]:<84} {each.n_bytes / 1024:>7.0f} {each.cpu_s * 1e3:>7.0f} "
            f"{each.first_cpu_s * 1e3:>7.0f} {p50:>7.0f} {p95:>7.0f}{mark}"
        )
    rows.append(f"{len(left_out)} routes are not asked, for this site has not what they name")
    return "\n".join(rows)


def _ask_alone(port: int, chosen: list[Address], readers: Readers) -> list[Asked]:
    """Those that are answered with 200. The first of a process is listed, and not counted, but of bulk answers."""
    asked = []
    connection = _connect(port)
    for address in chosen:
        before = cpu_of_children(os.getpid())
        status, n_bytes, first_s = _ask(connection, address, readers)
        if status != 200:
            continue
        each = Asked(address, status, n_bytes, first_s, cpu_of_children(os.getpid()) - before)
        asked.append(each)
        if each.is_bulk:
            each.seconds, each.cpu_s = [first_s], each.first_cpu_s
            continue
        before = cpu_of_children(os.getpid())
        for _ in range(_ALONE):
            each.seconds.append(_ask(connection, address, readers)[2])
        each.cpu_s = (cpu_of_children(os.getpid()) - before) / _ALONE
    return asked


def _ask_together(port: int, pages: list[Asked], readers: Readers) -> None:
    if not ROUNDS:
        return
    for each in pages:
        each.seconds = []

    def read(number: int) -> None:
        connection, random = _connect(port), Random(number)
        for _ in range(ROUNDS):
            for each in random.sample(pages, len(pages)):
                status, _n, seconds = _ask(connection, each.address, readers)
                each.seconds.append(seconds)
                each.n_failed += status != 200

    threads = [threading.Thread(target=read, args=(number,)) for number in range(N_READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _connect(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=300)


def _ask(connection: http.client.HTTPConnection, address: Address, readers: Readers) -> tuple[int, int, float]:
    """Status, bytes and seconds of one answer."""
    headers = {"Host": "localhost", "Accept-Encoding": "gzip", **readers.headers(address)}
    began = time.monotonic()
    connection.request("GET", address.path, headers=headers)
    answer = connection.getresponse()
    n_bytes = len(answer.read())
    return answer.status, n_bytes, time.monotonic() - began


def cpu_of_children(pid: int) -> float:
    """Processor time of the processes below this one, with those of them that have ended; not of itself."""
    total, waiting = 0.0, [pid]
    while waiting:
        parent = waiting.pop()
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        except FileNotFoundError:
            continue
        for child in map(int, children):
            try:
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            except FileNotFoundError:
                continue
            total += sum(map(int, fields[11:15])) / _TICKS_S
            waiting.append(child)
    return total


def _lookups(port: int, readers: Readers) -> Iterator[BenchLine]:
    """p99 of look-ups at a steady rate."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.swf"
        log.write_bytes(synthetic_log(300_000))
        ingest = ["manage.py", "import_usage", "--source", "bench-import", "--format", "swf", str(log)]
        for name, command in (
            ("alone", None),
            ("beside recomputes", _call("recompute_again()")),
            ("beside an import of 300,000 jobs", ingest),
            ("beside a variant of the lab", _call("simulate_again()")),
            ("beside uploads of 44 MB", _call(f"upload_again({port}, {readers.token!r})")),
        ):
            with _beside(command) as is_over:
                seconds = _look_up(port, readers, is_over)
            p99, p50 = quantile(seconds, 0.99), quantile(seconds, 0.5)
            yield BenchLine(
                f"look-up p99, {name} / {GOAL_LOOKUP_S * 1e3:g} ms",
                p99 / GOAL_LOOKUP_S,
                1.0,
                f"p99 {p99 * 1e3:.1f} ms, p50 {p50 * 1e3:.1f} ms of {len(seconds)} look-ups",
            )


@contextmanager
def _beside(command: list[str] | None) -> Iterator[Callable[[], bool]]:
    """Run a command; yields whether it has ended. Without one, after ten seconds."""
    began = time.monotonic()
    if command is None:
        yield lambda: time.monotonic() - began > 10
        return
    process = subprocess.Popen([sys.executable, *command], cwd=_ROOT, stdout=subprocess.DEVNULL)
    try:
        yield lambda: process.poll() is not None
        assert process.returncode == 0, (command, process.returncode)
    finally:
        process.kill()
        process.wait()


def _call(expression: str) -> list[str]:
    """Arguments of Python that call a function of this module in another process."""
    return ["-c", f"import django; django.setup(); from bench import site_load; site_load.{expression}"]


def recompute_again() -> None:
    """As a worker does it at three ticks, with usage of the last hours that has changed before each."""
    from apps.accounts.actor import COMMAND
    from apps.core.clock import now
    from apps.priorities.recompute.staleness import request_recompute
    from apps.runs.services import work_run_now

    for _ in range(3):
        change_usage(now())
        run = work_run_now(request_recompute(policy_slug=SLUG, at=now(), actor=COMMAND).pk)
        assert run.state == "succeeded", run.error


def simulate_again() -> None:
    """As a worker does it: the first variant of a sweep."""
    from apps.core.clock import now
    from apps.runs.services import work_run_now

    lab.make_groups(now())
    run = work_run_now(lab.sweep(1)[0])
    assert run.state == "succeeded", run.error


def upload_again(port: int, token: str) -> None:
    """A log for experiments, packed and sent three times: a worker reads it later."""
    text = synthetic_log(_UPLOADED_JOBS)[:_UPLOADED_BYTES].rpartition(b"\n")[0]
    connection, headers = _connect(port), {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps({"name": "bench", "gzip": base64.b64encode(gzip.compress(text)).decode()})
    for _ in range(3):
        connection.request("POST", f"/api/v1/policies/{SLUG}/experiments/traces", body, headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status in (200, 201), answer.status


def _look_up(port: int, readers: Readers, is_over: Callable[[], bool]) -> list[float]:
    """A steady rate: one that is late isn't followed by a pause, and its wait counts."""
    path = f"/api/v1/policies/{SLUG}/priorities?account={MEMBER.rpartition('/')[2]}"
    address, connection = Address("lookup", path, is_rest=True, is_fragment=False), _connect(port)
    seconds, due = [], time.monotonic()
    while not is_over():
        time.sleep(max(due - time.monotonic(), 0.0))
        status, _n, _s = _ask(connection, address, readers)
        assert status == 200, status
        seconds.append(time.monotonic() - due)
        due = max(due + 1 / _LOOKUPS_A_SECOND, time.monotonic())
    return seconds
