"""Sites whose best setting follows by hand, and sites that were made to mislead: for each the answer, and why.

The machine has 10 processors and 42 days of jobs, which it ran first come, first served. Candidates are the operators
relative and absolute, and half-lives of 2, 7 and 30 days beside the site's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.contrib.lab.advisor.known_sites import CPUS, N_DAYS, KnownSite, Stream

HOUR = 1.0 / 24.0


@dataclass(frozen=True)
class KnownAnswer:
    """right: by subject the values of which one is the best; empty where nothing is to advise. why: by hand.

    refusal: how the sentence begins of a site whose history says nothing.
    """

    name: str
    site: KnownSite
    why: str
    right: Mapping[str, frozenset[str]] = field(default_factory=dict)
    refusal: str = ""

    @property
    def text(self) -> str:
        answers = (f"{subject} {' or '.join(sorted(values))}" for subject, values in self.right.items())
        return ", ".join(answers) or ("no comparison" if self.refusal else "nothing to advise")


def overloaded(times: float, *, part: float = 0.5, **fields: object) -> KnownSite:
    """60, 30 and 10 shares; the group with 60 never submits. Fair use of the others is 75 and 25 %.

    part: of the work, of the group with 30 shares.
    """
    streams = (Stream(2, times * part), Stream(3, times * (1.0 - part)))
    return KnownSite((60, 30, 10), streams, **{"operator": "absolute", **fields})  # type: ignore[arg-type]


RELATIVE = {"operator": frozenset({"relative"})}
SHORTER = {"half_life": frozenset({"2 days"})}
LONGER = {"half_life": frozenset({"2 days", "7 days", "30 days"})}
HALF_LIFE_TOO_LONG = KnownSite((50, 50), (Stream(1, 1.2, days=((22, N_DAYS),)), Stream(2, 1.2)), half_life_days=60)
BURSTS = KnownSite(
    (50, 50),
    (Stream(2, 1.2), Stream(1, 1.2, days=tuple((day, day + 4.0) for day in range(2, N_DAYS - 3, 8)))),
    half_life_days=60,
)
HALF_LIFE_TOO_SHORT = KnownSite(
    (50, 50), (Stream(2, 1.2), Stream(1, 2.0, days=((3, 5), (17, 19), (31, 33)))), half_life_days=HOUR
)
AT_TARGET = KnownSite((1, 1, 1), (Stream(1, 0.4), Stream(2, 0.4), Stream(3, 0.4)))
N_SHORT = 23_000
ONE_FLOODS = KnownSite(
    (1, 1),
    (
        Stream(1, 0.6),
        Stream(2, N_SHORT / (CPUS * N_DAYS * 86_400.0), hours=(1 / 3_600, 1 / 3_600)),
        Stream(2, 0.6),
    ),
)
NO_EFFECT = KnownSite((50, 50), (Stream(1, 1.2), Stream(2, 1.2)), operator="absolute")
IDLE_MACHINE = KnownSite((3, 1), (Stream(1, 0.2), Stream(2, 0.2)), operator="absolute")
WIDE_JOBS = KnownSite((60, 30, 10), (Stream(2, 0.9, cpus=4), Stream(3, 0.9)), operator="absolute")
HELD_BY_LICENCES = KnownSite((3, 1), (Stream(1, 0.2), Stream(2, 0.2)), operator="absolute", held_s=1_800.0)
ASKS_FOR_FIFTY_TIMES = KnownSite((1, 1, 1), (Stream(1, 0.4, asks=50.0), Stream(2, 0.4), Stream(3, 0.4)))
CHANCE_OF_FEW = KnownSite((1, 1, 1), tuple(Stream(n, 0.3, hours=(8.0, 12.0), cpus=5) for n in (1, 2, 3)))

ANSWERS = (
    KnownAnswer(
        "overloaded, idle group",
        overloaded(1.8),
        "Of 60, 30 and 10 shares the first are idle. Absolute settles at equal points over target, 60 and 40 %; "
        "relative at 75 and 25 %, which is fair.",
        RELATIVE,
    ),
    KnownAnswer(
        "the same with wide jobs",
        WIDE_JOBS,
        "As before; one group needs 4 of 10 processors at once.",
        RELATIVE,
    ),
    KnownAnswer(
        "half-life far too long",
        HALF_LIFE_TOO_LONG,
        "One group ran alone for 22 days. With 60 days the other one then has everything for weeks, where each is owed "
        "half of any seven days.",
        SHORTER,
    ),
    KnownAnswer(
        "half-life far too short",
        HALF_LIFE_TOO_SHORT,
        "Once in two weeks a group asks for four days of the machine. It is owed half of the last seven days at once, "
        "and has all until then if its absence counts. After an hour that is forgotten: it has half, for eight days. "
        "Two days are enough.",
        LONGER,
    ),
    KnownAnswer(
        "bursts",
        BURSTS,
        "A group that asks for 1.2 machines in its bursts is behind at all times. With 60 days it has everything in "
        "each burst, and in the days after it.",
        SHORTER,
    ),
    KnownAnswer("three groups at target", AT_TARGET, "Equal shares, equal jobs: any order gives a third to each."),
    KnownAnswer(
        "23,000 jobs of a second",
        ONE_FLOODS,
        "Their work is 0.06 % of the machine: two groups with equal work and equal shares.",
    ),
    KnownAnswer(
        "an operator without effect",
        NO_EFFECT,
        "Of two groups with equal shares every operator prefers the one that used less: all orders are equal.",
    ),
    KnownAnswer("a machine that is never full", IDLE_MACHINE, "40 % busy: nobody waits, so no order matters."),
)
MISLEADING = (
    KnownAnswer(
        "held by licences",
        HELD_BY_LICENCES,
        "Every job waited half an hour on a machine with free processors: the queue isn't what held them.",
        refusal="Operator, half-life and algorithm can't be compared: jobs waited 30",
    ),
    KnownAnswer(
        "a group asks for 50 times its time",
        ASKS_FOR_FIFTY_TIMES,
        "Three groups at target. By requested times one of them would be owed nearly all.",
    ),
    KnownAnswer(
        "few jobs of half the machine",
        CHANCE_OF_FEW,
        "Three groups with equal shares and equal work below capacity. A job is 3 points of seven days' usage: which "
        "group has one more is chance.",
    ),
)
