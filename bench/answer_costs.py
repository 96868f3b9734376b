"""What an answer costs: wall time, and processor time of its client and of every process that serves it."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.same_answers import n_rows
from bench.site_load import cpu_of_children

_AT_REST = 0.05  # of a processor
_LONGEST_REST_S = 120.0


@dataclass(frozen=True, slots=True)
class AnswerCost:
    """asked: as somebody types it. cpu_s, wall_s: of one answer. is_cut: ended before it was whole."""

    asked: str
    wall_s: float
    cpu_s: float
    n_rows: int
    is_cut: bool = False

    def __str__(self) -> str:
        cut = ", cut" if self.is_cut else ""
        return f"{self.asked}: {self.cpu_s:.3g} s of processor time, {self.wall_s:.3g} s, {self.n_rows:,} rows{cut}"


def spent_s() -> float:
    """Processor time of this process and of all that it has started, also by others and before they ended.

    Both sides of a comparison run below this process, one after the other.
    """
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime + cpu_of_children(os.getpid())


def cost_of(asked: str, ask: Callable[[], str], rounds: int) -> tuple[AnswerCost, str]:
    """The mean of so many answers, and the last one. An answer that raises `Cut` isn't asked for again."""
    began, before_s, n, is_cut = time.monotonic(), spent_s(), 0, False
    text = ""
    while n < rounds and not is_cut:
        try:
            text = ask()
        except Cut as cut:
            text, is_cut = cut.so_far, True
        n += 1
    wall_s, cpu_s = (time.monotonic() - began) / n, (spent_s() - before_s) / n
    cost = AnswerCost(asked, wall_s, cpu_s, n_rows(text), is_cut)
    print(f"  {cost}", file=sys.stderr, flush=True)
    return cost, text


class Cut(Exception):
    """An answer took too long, and was ended with what there was of it."""

    def __init__(self, so_far: str) -> None:
        super().__init__(so_far[:80])
        self.so_far = so_far


def await_rest() -> None:
    """Until what was filled is written, and processes below this one do nothing; two minutes at most."""
    ends = time.monotonic() + _LONGEST_REST_S
    while time.monotonic() < ends:
        before_s = spent_s()
        time.sleep(1)
        if spent_s() - before_s < _AT_REST:
            return
