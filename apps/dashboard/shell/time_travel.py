"""Pages of the past: which moment an address asks for, and the bar that says so, with the way to others and to now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.http import HttpRequest, QueryDict
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.core import clock
from apps.core.errors import FieldProblem, Invalid
from apps.dashboard.shell import presentation
from apps.policies.selectors import read_moment
from apps.priorities.selectors import Moment
from apps.priorities.sentences import text_of

AT, DAY = "at", "day"


@dataclass(frozen=True, slots=True)
class Stop:
    """A revision on the slider."""

    number: int
    label: str


@dataclass(frozen=True)
class TimeBar:
    """What the bar says. `kept`: what else the address carries, for its forms."""

    moment: Moment
    shown: datetime
    numbers_key: str
    numbers: str
    stops: Sequence[Stop]
    kept: Sequence[tuple[str, str]]
    now_url: str

    @property
    def label(self) -> str:
        return next((stop.label for stop in self.stops if stop.number == self.moment.revision), "")

    @property
    def local(self) -> str:
        """For the field of a day and time, in the zone of the page."""
        return timezone.localtime(self.shown).strftime("%Y-%m-%dT%H:%M")


def moment_asked(request: HttpRequest) -> int | datetime | None:
    """`?at=`: a revision or an instant; None is now."""
    try:
        return read_moment(request.GET.get(AT))
    except ValueError as error:
        raise _no_moment(str(error)) from None


def day_asked(request: HttpRequest) -> str | None:
    """Where a day and time was filled in without zone: the same address with the instant that it is here."""
    typed = request.GET.get(DAY)
    if not typed:
        return None
    try:
        local = datetime.fromisoformat(typed)
        instant = local if local.tzinfo else timezone.make_aware(local)
    except (ValueError, OverflowError):
        raise _no_moment(_("is not a date and time")) from None
    state = request.GET.copy()
    del state[DAY]
    state[AT] = instant.isoformat()
    return f"{request.path}?{state.urlencode()}"


def suffix(at: int | datetime | None) -> str:
    """What an address of the same moment ends with."""
    return "" if at is None else f"?{urlencode({AT: written(at)})}"


def written(at: int | datetime) -> str:
    return str(at) if isinstance(at, int) else at.isoformat().replace("+00:00", "Z")


def time_bar(request: HttpRequest, moment: Moment | None) -> TimeBar | None:
    if moment is None:
        return None
    kept = request.GET.copy()
    for name in (AT, DAY, "cursor", "toggle"):
        kept.pop(name, None)
    key, numbers = _numbers(moment)
    return TimeBar(
        moment=moment,
        shown=moment.asked if isinstance(moment.asked, datetime) else moment.since,
        numbers_key=key,
        numbers=numbers,
        stops=_stops(moment),
        kept=[(name, str(value)) for name, values in kept.lists() for value in values],
        now_url=_address(request.path, kept),
    )


def _numbers(moment: Moment) -> tuple[str, str]:
    """Key and sentences: where the numbers are from; they are never mixed with those of another moment."""
    notes = moment.notes
    return notes[0].key.removeprefix("past."), text_of(notes)


def _stops(moment: Moment) -> list[Stop]:
    label, now = _("revision %(n)s, %(day)s"), clock.now()
    return [Stop(n, label % {"n": n, "day": presentation.day(at, now)}) for n, at in moment.stops]


def _address(path: str, kept: QueryDict) -> str:
    return f"{path}?{kept.urlencode()}" if kept else path


def _no_moment(problem: str) -> Invalid:
    message = _("The address contains a time that %(problem)s.") % {"problem": problem}
    return Invalid(message, fields=[FieldProblem(AT, problem)])
