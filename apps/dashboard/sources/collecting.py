"""How a source comes in, in words: what is fetched, whether it works, and when next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.dashboard.shell import presentation
from apps.dashboard.sources.forms import typed_command
from apps.runs.models import Run
from apps.usage.models import Source

KINDS: Sequence[tuple[str, Any, Any, str]] = (
    (
        Source.Kind.PUSH,
        gettext_lazy("Push (API or upload)"),
        gettext_lazy("A collector sends records with a token, or people upload files."),
        "send",
    ),
    (
        Source.Kind.DIRECTORY,
        gettext_lazy("A watched folder"),
        gettext_lazy("Accounting files in a folder that the worker can read."),
        "folder",
    ),
    (
        Source.Kind.COMMAND,
        gettext_lazy("A command of the scheduler"),
        gettext_lazy("sacct, squeue, qstat or another program permitted by the operator, run on a schedule."),
        "server-2",
    ),
    (
        Source.Kind.SLURM_REST,
        gettext_lazy("Slurm's REST daemon"),
        gettext_lazy("Finished jobs from its accounting database, and current jobs."),
        "plug-connected",
    ),
)
LABELS = {kind: label for kind, label, _text, _icon in KINDS}
PEER_LABEL = gettext_lazy("A peer’s feed: nothing to collect or to upload here")


@dataclass(frozen=True, slots=True)
class CollectingLine:
    """badge: of the kinds ok, bad, warn and none. error is for administrators only."""

    label: str
    is_collected: bool
    what: str
    rhythm: str
    key: str  # of the state: paused, at_work, not_yet, works, failed or in_part
    badge: str
    state: str
    next: str
    error: str
    is_at_work: bool


def collecting_line(source: Source, newest: Run | None, now: datetime, *, tells_all: bool) -> CollectingLine:
    is_at_work = newest is not None and newest.state in (Run.State.QUEUED, Run.State.RUNNING)
    key, badge, state = _state(source, newest, is_at_work)
    return CollectingLine(
        label=str(LABELS.get(source.kind, PEER_LABEL)),
        is_collected=source.is_collected,
        what=_what(source) if tells_all else "",
        rhythm=_rhythm(source),
        key=key,
        badge=badge,
        state=state,
        next=_next(source, now),
        error=source.collect_error if tells_all else "",
        is_at_work=is_at_work,
    )


def _state(source: Source, newest: Run | None, is_at_work: bool) -> tuple[str, str, str]:
    """Key, badge and words."""
    if source.is_paused:
        return "paused", "", _("paused")
    if is_at_work:
        return "at_work", "", _("collecting now")
    works = ("works", "ok", _("works"))
    if newest is None or newest.state == Run.State.CANCELLED:
        return ("not_yet", "", _("not collected yet")) if source.collected_at is None else works
    if newest.state == Run.State.FAILED:
        return "failed", "bad", _("failed")
    return ("in_part", "warn", _("partly works")) if source.collect_error else works


def _what(source: Source) -> str:
    terms = source.collecting
    if source.kind == Source.Kind.DIRECTORY:
        return f"{terms['folder']}/{terms['pattern']}"
    if source.kind == Source.Kind.COMMAND:
        return typed_command(terms["command"])
    return str(terms.get("address", ""))


def _rhythm(source: Source) -> str:
    if not source.collect_every_s:
        return _("manual")
    return _("every %(time)s") % {"time": presentation.duration(source.collect_every_s)}


def _next(source: Source, now: datetime) -> str:
    if source.is_paused:
        return _("after you resume it")
    if source.collect_due_at is None:
        return _("manual")
    seconds = presentation.seconds_between(now, source.collect_due_at)
    return _("at once") if seconds <= 0 else _("in %(time)s") % {"time": presentation.age(seconds)}
