"""Page of the record of promises: how often they held, by group, beside the scheduler's planned starts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, get_args

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_safe

from apps.contrib.schedulers.selectors import SILENT_INTERVALS
from apps.contrib.starts.prediction.promises import UNKNOWN_LENGTH, Kind
from apps.contrib.starts.sentences import past_queues_sentence
from apps.contrib.starts.start_record import By, HeldGroup, StartRecord, get_start_record
from apps.core import clock
from apps.priorities.sentences import numbers
from apps.web.shell.requests import actor_of

_TITLES: dict[str, Any] = {
    "week": gettext_lazy("Week"),
    "size": gettext_lazy("Processors"),
    "length": gettext_lazy("Time limit"),
    "partition": gettext_lazy("Partition"),
}
_KINDS: dict[str, Any] = {
    Kind.SUBMIT: gettext_lazy("At submission"),
    Kind.WAITING: gettext_lazy("After an hour or longer"),
}
_SHOWN_LEVEL = 80  # of groups: all levels are in the first table and in REST


@dataclass(frozen=True, slots=True)
class RecordLine:
    """A row of a table; shares as text, a dash where there is none."""

    key: str
    group: str
    kind: str
    level: str
    promises: str
    held: str
    by_burst: str
    bursts: str
    above: str
    withdrawn: str
    unknown: str
    planned: str
    beside: str


@require_safe
def start_record(request: HttpRequest, name: str) -> HttpResponse:
    """How often promises of starts of this scheduler's jobs held."""
    at, actor = clock.now(), actor_of(request)
    by: By = next((each for each in get_args(By) if each == request.GET.get("by") and each != "all"), "week")
    whole = get_start_record(name=name, by="all", at=at, actor=actor)
    grouped = get_start_record(name=name, by=by, at=at, actor=actor)
    groups = sorted(grouped.groups, key=lambda each: each.group, reverse=True) if by == "week" else grouped.groups
    url = reverse("pages:scheduler-starts", kwargs={"name": name})
    return render(
        request,
        "contrib/starts/record.html",
        {
            "record": whole,
            "headline": headline(whole),
            "lines": [_line(each, "") for each in whole.groups],
            "groups": [_line(each, group_text(by, each.group)) for each in groups if each.level == _SHOWN_LEVEL],
            "omitted": grouped.omitted,
            "groups_title": _("Promises of 80 %"),
            "group_title": _TITLES[by],
            "choices": [{"key": key, "label": title, "url": f"{url}?by={key}"} for key, title in _TITLES.items()],
            "by": by,
            "past_queues": None if whole.past_queues is None else past_queues_sentence(whole.past_queues),
            "recent": None if whole.recent_share is None else numbers.percent(whole.recent_share),
            "is_stale": _is_stale(whole, at),
            "crumbs": [{"label": _("When jobs of %(name)s start") % {"name": name}}],
        },
    )


def headline(record: StartRecord) -> str:
    """One sentence on promises of 80 % made at submission."""
    of_80 = next((each for each in record.groups if each.kind == Kind.SUBMIT and each.level == _SHOWN_LEVEL), None)
    if of_80 is None or of_80.held is None:
        return _("No promise was settled yet")
    words = ngettext(
        "%(share)s of %(n)s promise of 80 %% held", "%(share)s of %(n)s promises of 80 %% held", of_80.promises
    )
    return words % {"share": numbers.percent(of_80.held), "n": numbers.count(of_80.promises)}


def group_text(by: By, group: str) -> str:
    """What a group is called: a week by its Monday, classes by their bounds."""
    if by == "week":
        monday = date.fromisoformat(group)
        return numbers.date(datetime(monday.year, monday.month, monday.day, 12, tzinfo=clock.now().tzinfo))
    if by == "size":
        least = 4 ** int(group)
        return _("%(least)s to %(most)s") % {"least": numbers.count(least), "most": numbers.count(4 * least - 1)}
    if by == "length":
        return _length_text(int(group))
    return group or _("none named")


def _length_text(length: int) -> str:
    if length == UNKNOWN_LENGTH:
        return _("none")
    if length == 0:
        return _("under 1 hour")
    hours = 4 ** (length - 1)
    return _("%(least)s to %(most)s hours") % {"least": numbers.count(hours), "most": numbers.count(4 * hours)}


def _line(each: HeldGroup, group: str) -> RecordLine:
    return RecordLine(
        key=f"{each.group} {each.kind} {each.level}".strip(),
        group=group,
        kind=str(_KINDS[each.kind]),
        level=numbers.percent(each.level / 100, 0),
        promises=numbers.count(each.promises),
        held=_share(each.held),
        by_burst=_share(each.held_by_burst),
        bursts=numbers.count(round(each.bursts)),
        above=_share(each.held_above_floor),
        withdrawn=numbers.count(each.withdrawn),
        unknown=numbers.count(each.unknown),
        planned=_share(each.planned_held),
        beside=_share(each.beside_held),
    )


def _share(share: float | None) -> str:
    return "–" if share is None else numbers.percent(share)


def _is_stale(record: StartRecord, at: datetime) -> bool:
    intervals = SILENT_INTERVALS * timedelta(seconds=record.scheduler.every_s)
    return record.taken_at is not None and at - record.taken_at > intervals
