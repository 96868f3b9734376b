"""Random logs of PBS servers, with what each job held from second to second, by which a test knows what is right."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

DAY_S, HOUR_S = 86_400, 3600
FIRST_S = int(datetime(2026, 12, 29, tzinfo=UTC).timestamp())
LAST_S = FIRST_S + 4 * DAY_S  # over New Year
_USERS = ("ada", "bob", "cyd", "dee")


@dataclass
class Truth:
    """What is right. held: CPU seconds by user and hour, of spans that are over. open_jobs: by job, since when, CPUs
    and the seconds that it may still run.
    """

    held: defaultdict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))
    of_jobs: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    open_jobs: dict[str, tuple[int, float, float]] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)  # by job, the seconds that it asks for

    def add(self, user: str, job: str, from_s: int, to_s: int, cpus: int) -> None:
        self.of_jobs[job] += cpus * (to_s - from_s)
        for hour in range(from_s // HOUR_S, -(-to_s // HOUR_S)):
            inside_s = min(to_s, (hour + 1) * HOUR_S) - max(from_s, hour * HOUR_S)
            self.held[user, hour] += cpus * inside_s


@dataclass
class Log:
    """lines: with their time, in the order of time."""

    zone: ZoneInfo
    lines: list[tuple[int, int, str]] = field(default_factory=list)
    truth: Truth = field(default_factory=Truth)

    def write(self, at_s: int, kind: str, job: str, text: str = "") -> None:
        at = datetime.fromtimestamp(at_s, self.zone)
        self.lines.append((at_s, len(self.lines), f"{at:%m/%d/%Y %H:%M:%S};{kind};{job};{text}\n"))

    def days(self) -> list[list[str]]:
        """The lines of each day, in the server's zone."""
        days: dict[str, list[str]] = {}
        for _, _, line in sorted(self.lines):
            days.setdefault(line[:10], []).append(line)
        return list(days.values())


Span = tuple[int, int, int]  # from, to, CPUs


class Job:
    """One job of a server, which writes its lines while time passes."""

    def __init__(self, log: Log, rng: random.Random, number: int, server: str, *, is_torque: bool) -> None:
        self.log, self.rng, self.is_torque = log, rng, is_torque
        self.name, self.user = f"{number}.{server}", rng.choice(_USERS)
        self.ctime = FIRST_S + rng.randrange(2 * DAY_S)
        self.asked_s, self.nodes, self.n_runs = rng.randrange(4, 90) * 1800, rng.randrange(2, 6), 0
        self.used = {self.ctime}  # seconds at which it wrote
        self.lost: tuple[int, list[Span]] | None = None  # start and spans of a run whose end no line says

    def later(self, after_s: int, most_s: int) -> int:
        """A second after another at which it wrote nothing yet."""
        at_s = after_s + self.rng.randrange(1, max(most_s, 2))
        while at_s in self.used:
            at_s += 1
        self.used.add(at_s)
        return at_s

    def request(self, nodes: int) -> str:
        hosts = "+".join(f"n{n}/0*8" for n in range(nodes))
        vnodes = "+".join(f"(n{n}:ncpus=8)" for n in range(nodes))
        hours, rest = divmod(self.asked_s, HOUR_S)
        walltime = f"Resource_List.walltime={hours:02}:{rest // 60:02}:00"
        own = f"exec_host={hosts} " if self.is_torque else f"exec_host={hosts} exec_vnode={vnodes} "
        return f"{own}Resource_List.ncpus={8 * nodes} {walltime}"

    def who(self, start_s: int | None = None) -> str:
        begun = "" if start_s is None else f" start={start_s}"
        times = f"ctime={self.ctime} qtime={self.ctime} etime={self.ctime}{begun}"
        return f"user={self.user} group=phys jobname=a job queue=batch {times}"

    def write(self) -> None:
        rng, log, at_s = self.rng, self.log, self.ctime
        log.write(at_s, "Q", self.name, f"{self.who()} Resource_List.ncpus=8 {self.request(1).rpartition(' ')[2]}")
        if rng.random() < 0.2:
            at_s = self.later(at_s, HOUR_S)
            self.ask(at_s)
        if rng.random() < 0.1:  # it never runs
            if rng.random() < 0.5:
                log.write(self.later(at_s, DAY_S), rng.choice("DA"), self.name, "requestor=x@h")
            else:
                log.truth.waiting[self.name] = self.asked_s
            return
        while True:
            end_s = self.run(self.later(at_s, 4 * HOUR_S))
            if end_s is None:
                return
            at_s = end_s
            if self.lost is None and (at_s > LAST_S - DAY_S // 2 or rng.random() < 0.5 or self.n_runs > 3):
                return

    def ask(self, at_s: int) -> None:
        self.asked_s = self.rng.randrange(4, 90) * 1800
        self.log.write(at_s, "a", self.name, self.request(1).rpartition(" ")[2])

    def run(self, start_s: int) -> int | None:
        """One run. Returns when the next one may start; None if none may."""
        rng, log = self.rng, self.log
        self.n_runs += 1
        if self.lost is not None:
            self.settle_lost(start_s)
        nodes, first_asked_s = self.nodes, self.asked_s
        first = self.request(nodes)
        log.write(start_s, "S", self.name, f"{self.who(start_s)} {first}")
        spans: list[Span] = []  # from, to, CPUs
        since_s, phase_s, awake_s, is_awake, has_phases = start_s, start_s, 0, True, False
        walltime_of_phase = 0
        at_s = start_s
        for _ in range(rng.choice((0, 0, 1, 2, 3, 5))):
            at_s = self.later(at_s, 9 * HOUR_S)
            what = rng.choice(("rest", "rest", "phase", "ask"))
            if what == "ask":
                self.ask(at_s)
            elif self.is_torque:
                continue
            elif not is_awake or what == "rest":
                log.write(at_s, "z" if is_awake else "r", self.name, "requestor=Scheduler@h")
                if is_awake:
                    spans.append((since_s, at_s, 8 * nodes))
                    walltime_of_phase += at_s - max(since_s, phase_s)
                since_s, is_awake = at_s, not is_awake
            elif nodes > 1:
                walltime_of_phase += at_s - max(since_s, phase_s)
                spans.append((since_s, at_s, 8 * nodes))
                was, nodes = self.request(nodes), nodes - 1
                used = f"session=7 run_count={self.n_runs} resources_used.walltime={_clock(walltime_of_phase)}"
                is_prune = not has_phases and at_s - start_s < HOUR_S and rng.random() < 0.5
                if is_prune:
                    log.write(at_s, "s", self.name, f"{self.who(start_s)} {self.request(nodes)}")
                    walltime_of_phase = 0
                else:
                    log.write(at_s, "u", self.name, f"{self.who(start_s)} {was} {used}")
                    log.write(at_s, "c", self.name, f"{self.who(start_s)} {self.request(nodes)}")
                    walltime_of_phase = 0
                has_phases, since_s, phase_s = True, at_s, at_s
        end_s = self.later(at_s, 12 * HOUR_S)
        how = rng.choice(("E", "E", "E", "DE", "R", "stop", "A", "D", "open", "lost"))
        if self.is_torque:
            how = rng.choice(("E", "E", "DE", "stop", "A", "open", "lost"))
        awake_s = sum(to_s - from_s for from_s, to_s, _ in spans)
        if how == "open" or end_s > LAST_S or (how == "lost" and not is_awake):
            left_s = self.asked_s - awake_s if spans else self.asked_s
            if is_awake:
                log.truth.open_jobs[self.name] = (since_s, 8.0 * nodes, max(left_s, 0))
            self.settle(spans)
            return None
        if how == "lost":
            self.lost = (start_s, [*spans, (since_s, 0, 8 * nodes)])
            return end_s
        if is_awake:
            spans.append((since_s, end_s, 8 * nodes))
        awake_s = sum(to_s - from_s for from_s, to_s, _ in spans)
        used = f"session=7 end={end_s} Exit_status=0 resources_used.walltime={_clock(awake_s)}"
        counted = "" if self.is_torque else f" run_count={self.n_runs}"
        final = first.replace(_walltime(first_asked_s), _walltime(self.asked_s))
        if "E" in how or how == "R":
            if "D" in how:
                gone_s = self.later(max(at_s, end_s - 50), 2) if end_s - at_s > 60 else end_s
                log.write(gone_s, "D", self.name, "requestor=x")
            if has_phases:
                walltime_of_phase += end_s - max(since_s, phase_s) if is_awake else 0
                phase = f"run_count={self.n_runs} resources_used.walltime={_clock(walltime_of_phase)}"
                log.write(end_s, "e", self.name, f"{self.who(start_s)} {self.request(nodes)} {phase}")
            log.write(end_s, how[-1], self.name, f"{self.who(start_s)} {final} {used}{counted}")
        elif how == "A" and self.is_torque:
            log.write(end_s, "A", self.name, f"{self.who(start_s)} {first}")
        else:
            log.write(end_s, "R" if how == "stop" else how, self.name)
        self.settle(spans)
        return None if how in ("E", "DE", "A", "D") else end_s

    def settle_lost(self, next_s: int) -> None:
        """It ran until the next run began, or for the time that it had asked for, in which rests don't count."""
        assert self.lost is not None
        start_s, spans = self.lost
        spans[-1] = (spans[-1][0], next_s, spans[-1][2])
        end_s, at_s = start_s + self.asked_s, start_s
        for from_s, to_s, _ in spans:
            if at_s < end_s:
                end_s += from_s - at_s
            at_s = to_s
        self.settle([(from_s, min(to_s, end_s), cpus) for from_s, to_s, cpus in spans if from_s < end_s])
        self.lost = None

    def settle(self, spans: list[Span]) -> None:
        for from_s, to_s, cpus in spans:
            self.log.truth.add(self.user, self.name, from_s, to_s, cpus)


def _walltime(seconds: int) -> str:
    hours, rest = divmod(seconds, HOUR_S)
    return f"Resource_List.walltime={hours:02}:{rest // 60:02}:00"


def _clock(seconds: int) -> str:
    hours, rest = divmod(seconds, HOUR_S)
    return f"{hours:02}:{rest // 60:02}:{rest % 60:02}"


def random_log(seed: int, n_jobs: int = 8) -> Log:
    """Two servers with the same job numbers, one of them Torque half of the time."""
    rng = random.Random(seed)
    log = Log(ZoneInfo(rng.choice(("UTC", "Europe/Stockholm", "Asia/Kolkata"))))
    torque = rng.random() < 0.5
    for number in range(1, n_jobs // 2 + 1):
        Job(log, rng, number, "alpha", is_torque=False).write()
        Job(log, rng, number, "beta", is_torque=torque).write()
    return log
