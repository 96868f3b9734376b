"""Rows and sentences of the page of now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.contrib.starts.now.coming_free import (
    MOST_PARTITIONS_COMING_FREE,
    Amount,
    ComesFree,
    PartitionComingFree,
)
from apps.contrib.starts.now.records import GroupNow, LevelNow, ResourceNow
from apps.contrib.starts.now.wait_statistics import LEAST_WAIT_JOBS, WaitStatistics
from apps.contrib.starts.pages.row_names import name_of_row
from apps.priorities.sentences import numbers
from apps.priorities.sentences.wait_text import wait_text
from apps.web.shell import presentation

_SAME_TREND_S = 60.0  # a smaller change of the median is none
_SAME_TREND_PART = 0.1
MOST_LENDING_SENTENCES = 12
MOST_FIRST_ROWS = 5  # of those above their shares, of those with unused ones, and of the longest waits
MOST_NAMED_LENDERS = 4
BAR_WIDTH = 160.0
_MORE = {
    "above": gettext_lazy("above"),
    "unused": gettext_lazy("unused"),
    "on": gettext_lazy("on target"),
}


@dataclass(frozen=True, slots=True)
class WaitRow:
    """trend: longer, shorter, same, or empty while unknown."""

    kind: str
    name: str
    uid: UUID | None
    jobs: str
    median: str
    p90: str
    trend: str
    trend_text: str


def name_of(row: GroupNow) -> str:
    return name_of_row(row.kind, row.path)


def wait_rows(level: LevelNow) -> list[WaitRow]:
    """Rows of groups and members, and of others with jobs, the longest median first; the last one is the total."""
    shown = sorted(filter(_is_shown, level.rows), key=lambda row: (-_median_s(row), row.path))
    rows = [_wait_row(row.kind, name_of(row), row.uid, row.waits) for row in shown]
    return [*rows, _wait_row("total", _("Total"), None, level.total)]


def _median_s(row: GroupNow) -> float:
    return -1.0 if row.waits.median_s is None else row.waits.median_s


def longest_waits(rows: list[WaitRow]) -> list[WaitRow]:
    """The first rows and the total."""
    return rows if len(rows) <= MOST_FIRST_ROWS + 1 else [*rows[:MOST_FIRST_ROWS], rows[-1]]


@dataclass(frozen=True, slots=True)
class ShareRow:
    """What runs of one row beside its share. state: above, unused, or on. more: by how much; more_word: of what."""

    kind: str
    name: str
    uid: UUID | None
    target: str
    running: str
    entitled: str
    state: str
    more: str
    more_word: str
    waiting: str
    reclaimed: str
    bar_width: float
    entitled_x: float | None


def share_rows(level: LevelNow, of: str) -> list[ShareRow]:
    """Rows by what is above what they are entitled to, most first, then by unused shares. of: cores or gpus."""
    shares = [(row, getattr(row, of)) for row in level.rows]
    known = [(row, each) for row, each in shares if each is not None]
    shown = [(row, each) for row, each in known if row.kind in ("group", "members") or each.running or each.waiting]
    top = max((max(each.running, each.entitled or 0.0) for _row, each in shown), default=0.0)
    shown.sort(key=lambda pair: (-pair[1].above, -pair[1].unused, pair[0].path))
    return [_share_row(row, each, top) for row, each in shown]


def furthest_shares(rows: list[ShareRow]) -> list[ShareRow]:
    """The first rows above their shares, and the first with unused ones."""
    if len(rows) <= 2 * MOST_FIRST_ROWS:
        return rows
    above, unused = ([row for row in rows if row.state == state][:MOST_FIRST_ROWS] for state in ("above", "unused"))
    return [*above, *unused]


def lending_sentences(level: LevelNow, of: str) -> list[str]:
    """On whose unused shares each row runs that is above its own, the largest first."""
    names = [name_of(row) for row in level.rows]
    rows = [(row, getattr(row, of)) for row in level.rows]
    above = [(row, each) for row, each in rows if each is not None and round(each.above) > 0]
    above.sort(key=lambda pair: (-pair[1].above, pair[0].path))
    return [_lending_sentence(row, each, names, of) for row, each in above[:MOST_LENDING_SENTENCES]]


@dataclass(frozen=True, slots=True)
class FreeRow:
    """One partition: what runs, what comes free by each instant, which is named, and what runs without a limit."""

    name: str
    running: str
    by: list[tuple[str, str]]
    unlimited: str


def free_rows(level: LevelNow) -> list[FreeRow]:
    """Partitions, the largest first. Their scheduler is named where there are several."""
    shows_scheduler = len({each.scheduler for each in level.coming_free}) > 1
    return [
        FreeRow(
            _partition_name(each, shows_scheduler=shows_scheduler),
            _both(each.running),
            [(_by(free, level), _both(Amount(free.cores, free.gpus))) for free in each.comes_free],
            _both(each.unlimited),
        )
        for each in level.coming_free
    ]


def free_sentence(level: LevelNow) -> str:
    """What comes free of all partitions within the first hour and the day; empty where nothing runs."""
    if not level.coming_free:
        return ""
    soon, day = (_sum(each.comes_free[i] for each in level.coming_free) for i in (0, -1))
    text = _("By the time limits of running jobs, %(soon)s come free within 1 h, and %(day)s within 24 h.")
    if len(level.coming_free) >= MOST_PARTITIONS_COMING_FREE:
        text = _("In the %(n)s largest partitions, %(soon)s come free within 1 h, and %(day)s within 24 h.")
    return text % {"soon": _in_words(soon), "day": _in_words(day), "n": numbers.count(len(level.coming_free))}


def unlimited_sentence(level: LevelNow) -> str:
    """Empty where all running jobs have limits."""
    amount = _sum(each.unlimited for each in level.coming_free)
    if not round(amount.cores) and not round(amount.gpus):
        return ""
    return _("%(amount)s of jobs without a time limit: nothing says when these end.") % {"amount": _in_words(amount)}


def _by(free: ComesFree, level: LevelNow) -> str:
    return _("Free by %(time)s") % {"time": presentation.clock_time(free.by, level.as_of)}


def _partition_name(each: PartitionComingFree, *, shows_scheduler: bool) -> str:
    if not each.partition:
        return each.scheduler
    words = {"partition": each.partition, "scheduler": each.scheduler}
    return _("%(partition)s of %(scheduler)s") % words if shows_scheduler else each.partition


def _sum(amounts: Iterable[Amount | ComesFree]) -> Amount:
    listed = list(amounts)
    return Amount(sum(each.cores for each in listed), sum(each.gpus for each in listed))


def _in_words(amount: Amount) -> str:
    cores = _amount(amount.cores, "cores")
    if not round(amount.gpus):
        return cores
    return _("%(cores)s and %(gpus)s") % {"cores": cores, "gpus": _amount(amount.gpus, "gpus")}


def _both(amount: Amount) -> str:
    """For a cell: cores alone, and GPUs where there are any."""
    cores = numbers.count(amount.cores) if round(amount.cores) else "–"
    if not round(amount.gpus):
        return cores
    return _("%(cores)s, %(gpus)s") % {"cores": cores, "gpus": _amount(amount.gpus, "gpus")}


def hurt_sentence(level: LevelNow, of: str) -> str:
    """What runs on unused shares, all of which would be reclaimed if all came, and what the jobs that wait would."""
    known = [each for row in level.rows if (each := getattr(row, of)) is not None]
    above, back = sum(each.above for each in known), sum(each.reclaimed for each in known)
    if round(above) == 0:
        return _("No group runs on an unused share of others.")
    values = {"above": _amount(above, of), "back": _amount(back, of)}
    if round(back) == 0:
        return _("%(above)s in use on unused shares of others; jobs that wait now would reclaim none.") % values
    return _("%(above)s in use on unused shares of others; jobs that wait now would reclaim %(back)s.") % values


def headline(level: LevelNow) -> str:
    """How long jobs waited, as a sentence."""
    waits, days = level.total, {"days": numbers.count(level.n_days)}
    if waits.median_s is None or waits.p90_s is None:
        text = _("Fewer than %(least)s jobs started in the last %(days)s days.")
        return text % {**days, "least": numbers.count(LEAST_WAIT_JOBS)}
    text = _("Half of the jobs of the last %(days)s days started within %(median)s, nine of ten within %(p90)s.")
    return text % {**days, "median": wait_text(waits.median_s), "p90": wait_text(waits.p90_s)}


def _share_row(row: GroupNow, shares: ResourceNow, top: float) -> ShareRow:
    state = "above" if round(shares.above) else "unused" if round(shares.unused) else "on"
    more = {"above": shares.above, "unused": shares.unused}.get(state, 0.0)
    scale = BAR_WIDTH / top if top > 0 else 0.0
    return ShareRow(
        kind=row.kind,
        name=name_of(row),
        uid=row.uid,
        target=numbers.percent(row.target) if row.target else "–",
        running=numbers.count(shares.running),
        entitled="–" if shares.entitled is None else numbers.count(shares.entitled),
        state=state,
        more="" if state == "on" else numbers.count(more),
        more_word=str(_MORE[state]),
        waiting=numbers.count(shares.waiting) if round(shares.waiting) else "–",
        reclaimed=numbers.count(shares.reclaimed) if round(shares.reclaimed) else "–",
        bar_width=round(shares.running * scale, 1),
        entitled_x=None if shares.entitled is None else round(shares.entitled * scale, 1),
    )


def _lending_sentence(row: GroupNow, shares: ResourceNow, names: list[str], of: str) -> str:
    lenders = sorted(shares.runs_on, key=lambda each: (-each.amount, names[each.row]))
    named = [
        _("%(n)s of %(name)s") % {"n": numbers.count(each.amount), "name": names[each.row]}
        for each in lenders[:MOST_NAMED_LENDERS]
        if round(each.amount) > 0
    ]
    rest = shares.above - sum(each.amount for each in lenders[: len(named)])
    if round(rest) > 0:
        named.append(_("%(n)s of others") % {"n": numbers.count(rest)})
    values = {"name": name_of(row), "above": _amount(shares.above, of), "lenders": ", ".join(named)}
    return _("%(name)s: %(above)s on unused shares: %(lenders)s.") % values


def _amount(amount: float, of: str) -> str:
    n = {"n": numbers.count(amount)}
    if of == "gpus":
        return ngettext("%(n)s GPU", "%(n)s GPUs", round(amount)) % n
    return ngettext("%(n)s core", "%(n)s cores", round(amount)) % n


def _is_shown(row: GroupNow) -> bool:
    """What has no target is a row only while it has jobs enough to say something."""
    return row.kind in ("group", "members") or row.waits.jobs is not None


def _wait_row(kind: str, name: str, uid: UUID | None, waits: WaitStatistics) -> WaitRow:
    trend = _trend(waits)
    few = _("under %(n)s") % {"n": numbers.count(LEAST_WAIT_JOBS)}
    hidden = waits.median_s is None
    return WaitRow(
        kind=kind,
        name=name,
        uid=uid,
        jobs=few if hidden else "–" if waits.jobs is None else numbers.count(waits.jobs),
        median=wait_text(waits.median_s),
        p90=wait_text(waits.p90_s),
        trend=trend,
        trend_text=_trend_text(trend, waits.trend_s),
    )


def _trend(waits: WaitStatistics) -> str:
    change_s = waits.trend_s
    if change_s is None or waits.median_s is None or waits.median_before_s is None:
        return ""
    least_s = max(_SAME_TREND_S, _SAME_TREND_PART * max(waits.median_s, waits.median_before_s))
    if abs(change_s) < least_s:
        return "same"
    return "longer" if change_s > 0 else "shorter"


def _trend_text(trend: str, change_s: float | None) -> str:
    if not trend or change_s is None:
        return "–"
    if trend == "same":
        return _("as before")
    texts = {"longer": _("%(time)s longer"), "shorter": _("%(time)s shorter")}
    return texts[trend] % {"time": wait_text(abs(change_s))}
