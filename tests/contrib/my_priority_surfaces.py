"""My priority of one user as page, REST and terminal show it, made in memory from a tree, past days and a queue."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from django.template.loader import render_to_string
from hypothesis import strategies as st

from apps.accounts.account_keys import AccountKey
from apps.contrib.forecast.api.forecasts import ForecastSerializer
from apps.contrib.forecast.figures import ForecastOptions, forecast_figure
from apps.contrib.forecast.outlook import outlook_in
from apps.contrib.forecast.past_usage import LevelPast
from apps.contrib.forecast.selectors import Forecast, forecast_from
from apps.contrib.forecast.views import card_of
from apps.contrib.schedulers.api.my_jobs import WaitingJobsSerializer
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.my_jobs import OwnQueues, listed_queue, queue_facts, with_queues
from apps.contrib.schedulers.own_waiting_jobs import WaitingJobs
from apps.contrib.schedulers.queue_table import QueueTable, read_queue
from apps.contrib.schedulers.selectors import VisibleQueue, _entries
from apps.explain.account_path import _explained_priority, _line
from apps.explain.messages import messages_of
from apps.explain.my_priority import MyPriority
from apps.explain.path import walk_to
from apps.explain.verdict import AccountFacts, queue_messages
from apps.policies.models import Policy
from apps.priorities.serving.lookup import AccountQuery
from apps.web.texts.account_explanation import build_account_explanation
from tests.explain.sentence_world import AS_OF, SentenceWorld
from tests.pages.page import Page

_FILE = Path(__file__).parents[2] / "terminal" / "fairshare.py"
_SPEC = importlib.util.spec_from_file_location("fairshare_terminal", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
terminal = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(terminal)

Json = dict[str, Any]


@dataclass(frozen=True)
class DrawnDays:
    """Usage on recent days: of groups, and the fraction of it that entries on a path have, by level."""

    group: tuple[float, ...]
    part: tuple[float, ...]

    def past(self, level: int) -> LevelPast:
        part = self.part[level % len(self.part)]
        days = np.array(self.group)
        return LevelPast(days * part, days, AS_OF, tuple)


@st.composite
def days(draw: st.DrawFn) -> DrawnDays | None:
    """None: usage by day isn't known."""
    if draw(st.integers(0, 9)) == 0:
        return None
    n = draw(st.sampled_from((0, 1, 5, 28)))
    group = tuple(draw(st.sampled_from((0.0, 1e3, 1e5, 1e7, 1e9))) for _ in range(n))
    steady = draw(st.booleans())
    part = tuple(draw(st.sampled_from((0.0, 0.01, 0.1, 0.33, 0.5, 0.9, 1.0))) for _ in range(3))
    return DrawnDays((max(group, default=0.0),) * n if steady else group, part)


@st.composite
def queues(draw: st.DrawFn, names: Sequence[str]) -> list[Json] | None:
    """Rows of a listing; None: no agent lists the queue."""
    if draw(st.integers(0, 3)) == 0:
        return None
    rows = []
    for number in range(draw(st.integers(0, 8))):
        fair, rest = draw(st.sampled_from((0, 10, 500, 90_000))), draw(st.sampled_from((0, 100, 700)))
        has_terms = draw(st.integers(0, 4)) > 0
        terms = {"site": fair, "age": rest} if has_terms else None
        state = draw(st.sampled_from(("pending", "pending", "pending", "held")))
        rows.append(
            {
                "job": str(100 + number),
                "user": draw(st.sampled_from((*names, "ghost"))),
                "group": "",
                "partition": draw(st.sampled_from(("batch", "batch", "gpu"))),
                "qos": "",
                "reason": "Priority" if state == "pending" else "JobHeldUser",
                "state": state,
                "cpus": draw(st.sampled_from((None, 8))),
                "submit_at": (AS_OF - timedelta(hours=draw(st.integers(1, 3)))).isoformat(),
                "priority": fair + rest if has_terms or draw(st.booleans()) else None,
                "terms": terms,
            }
        )
    return rows


ORDERS: Sequence[Json] = (
    {"mode": "on"},
    {"mode": "shadow"},
    {"mode": "off"},
    {"mode": "on", "partitions": ["batch"]},
    {"mode": "canary", "canary_partition": "gpu"},
    {"mode": "on", "carries": "shares"},
    {"mode": "on", "is_paused": True},
    {"mode": "on", "is_reset_requested": True},
)  # of a scheduler


def queue_of(world: SentenceWorld, rows: Sequence[Json], orders: Json) -> VisibleQueue:
    scheduler = Scheduler(
        name="umea", namespace="c1", policy=Policy(slug="grid"), kind="slurm", knob="sitefactor", **orders
    )
    table = read_queue(list(rows))
    table = QueueTable(**{**table.__dict__, "taken_at": AS_OF})
    entry = _entries(table, world.snapshot, scheduler.namespace)
    return VisibleQueue(scheduler, table, world.snapshot, entry, np.ones(len(table), np.bool_), None, None)


class _WithoutFactorAhead(Forecast):
    """Usage of all entries in the last days, from which the factor is simulated, isn't stored here."""

    factor_ahead = None


@dataclass(frozen=True, eq=False)
class Surfaces:
    """All that a user with these leaves sees about the first one. mine: also of accounts that no rule maps."""

    world: SentenceWorld
    accounts: Sequence[MyPriority]
    days: DrawnDays | None
    rows: Sequence[Json] | None
    is_silent: bool = False  # the agent that listed the rows
    orders: Json = field(default_factory=lambda: {"mode": "on"})

    @property
    def mine(self) -> MyPriority:
        return self.accounts[0]

    @cached_property
    def queues(self) -> OwnQueues:
        """One that is listed, or was until its agent fell silent."""
        if self.rows is None:
            return OwnQueues()
        queue = queue_of(self.world, self.rows, self.orders)
        return OwnQueues(unread=[(queue.scheduler, queue)]) if self.is_silent else OwnQueues([queue])

    @cached_property
    def keys(self) -> list[AccountKey]:
        return [AccountKey("c1", one.account) for one in self.accounts]

    @cached_property
    def forecast(self) -> Forecast | None:
        if self.mine.error:
            return None
        snapshot = self.world.snapshot
        walk = walk_to(snapshot, self.world.at(self.mine.entry_path))
        pasts = None if self.days is None else [self.days.past(level) for level in range(len(walk.chain))]
        query = AccountQuery(self.mine.account, "", "c1")
        found = forecast_from(Policy(slug="grid", name="Grid"), snapshot, query, walk, walk.chain, pasts)
        return _WithoutFactorAhead(**found.__dict__)

    @cached_property
    def facts(self) -> AccountFacts:
        if self.forecast is None:
            return AccountFacts()
        forecast = self.forecast
        return AccountFacts(lambda: outlook_in(forecast, self.mine), queue_facts(self.mine, self.queues, self.keys))

    @cached_property
    def waiting(self) -> WaitingJobs:
        return with_queues(WaitingJobs([], 0, 0, None, []), self.queues, self.keys, limit=100)

    @cached_property
    def rest(self) -> dict[str, Json]:
        """Answers by route."""
        texts = messages_of(self.mine, self.accounts[1:], self.facts)
        return {
            "me": _line(self.mine, texts),
            "me/explanation": _explained_priority(self.mine, texts),
            "me/forecast": {} if self.forecast is None else dict(ForecastSerializer(self.forecast).data),
            "me/waiting-jobs": dict(WaitingJobsSerializer(self.waiting).data),
        }

    @cached_property
    def page(self) -> Page:
        story = build_account_explanation(self.mine, self.accounts[1:], self.facts)
        context = {"story": story, "mine": self.mine, "waiting_jobs": self.waiting, "policy_slug": "grid"}
        context["queue"] = queue_messages(listed_queue(self.waiting))
        names = ["pages/my_priority/_answer", "contrib/schedulers/_my_waiting_jobs"]
        if self.forecast is not None:
            context["forecast"] = card_of(self.forecast, share="", problem="")
            names += ["pages/my_priority/_walk", "contrib/forecast/_forecast_levels"]
        return Page("".join(render_to_string(f"{name}.html", context) for name in names))

    @cached_property
    def figure_sentence(self) -> str:
        if self.forecast is None:
            return ""
        return _plain(forecast_figure(self.forecast, ForecastOptions()).sentence)

    @cached_property
    def terminal(self) -> dict[str, str]:
        """What `fairshare me` and `fairshare why` print, with each run of blanks as one."""
        printed = {}
        for command, draw, route in (
            ("me", terminal.print_my_priority, "me"),
            ("why", terminal.print_walk, "me/explanation"),
        ):
            sheet = terminal.Page(1000, False)
            draw(sheet, {"accounts": [_as_received(self.rest[route])]})
            printed[command] = _plain(" ".join(sheet.lines))
        return printed


def _as_received(answer: Mapping[str, Any]) -> Json:
    """Dates as text, as JSON carries them."""
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in answer.items()}


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
