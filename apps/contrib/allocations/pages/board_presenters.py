"""The board of allocations as a page shows it: headline, key figures, and rows in groups by what to do about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.allocations.board import AllocationBoard, BoardRow
from apps.contrib.allocations.form_warnings import FormWarning
from apps.contrib.allocations.outlook import State as Course
from apps.contrib.allocations.pages.course_bar import CourseBar, draw_course
from apps.contrib.allocations.pages.forms import day_text, period_text
from apps.contrib.allocations.pages.presenters import amount, quantity, tab_url
from apps.contrib.allocations.periods import day_of
from apps.priorities.sentences import numbers as number_texts
from apps.web.shell import presentation
from apps.web.shell.presentation import Balance
from apps.web.svg.bars import State

_MOST_NAMED = 3
MOST_OPEN_ROWS = 8  # so that the answer is on the first screen
SOON = timedelta(days=60)
_RUN_OUT: tuple[Course, ...] = ("used_up", "runs_out")
_GROUPS: tuple[tuple[str, tuple[Course, ...]], ...] = (
    ("run_out", _RUN_OUT),
    ("unused", ("unused",)),
    ("fine", ("on_course",)),
    ("open", ("unknown", "early", "not_begun", "ended")),
)
_CSS: dict[str, State] = {"used_up": State.OVER, "runs_out": State.OVER, "unused": State.UNDER, "on_course": State.ON}


@dataclass(frozen=True, slots=True)
class BoardLine:
    """One row as texts, empty where they don't apply. parent: path of the entry above. outlook: how it will end."""

    row: BoardRow
    url: str
    parent: str
    days: str
    period: str
    ends_soon: str
    used: str
    allocated: str
    held: str
    jobs: str
    at_end: str
    outlook: Balance
    detail: str
    warnings: Sequence[str]
    bar: CourseBar
    label: str
    allocate_url: str


@dataclass(frozen=True, slots=True)
class BoardGroup:
    """Rows that ask for the same. key: run_out, unused, fine or open. n: of all pages. further: behind one more click.

    A closed group says names and soon: the first ones in it, and how many end soon. repeats_head: not the first one.
    """

    key: str
    title: str
    n: int
    lines: Sequence[BoardLine]
    further: Sequence[BoardLine]
    is_open: bool
    repeats_head: bool

    @property
    def names(self) -> str:
        return named([line.row.name for line in self.lines], self.n)

    @property
    def soon(self) -> str:
        ending = [line for line in (*self.lines, *self.further) if line.ends_soon]
        if len(ending) == 1:
            return f"{ending[0].row.name} {ending[0].ends_soon}"
        return ngettext("%(n)s ends soon", "%(n)s end soon", len(ending)) % {"n": len(ending)} if ending else ""

    @property
    def further_title(self) -> str:
        return ngettext("%(n)s more", "%(n)s more", len(self.further)) % {"n": number_texts.count(len(self.further))}


def board_groups(board: AllocationBoard) -> list[BoardGroup]:
    """Groups by what they ask for. The first is open, and each next one while all open rows fit the first screen."""
    titles = {
        "run_out": _("Run out before their end"),
        "unused": _("Won’t be used"),
        "fine": _("On course"),
        "open": _("No forecast"),
    }
    groups: list[BoardGroup] = []
    n_open = 0
    for key, states in _GROUPS:
        lines = [draw_board_line(board, row) for row in board.rows if row.state in states]
        if not lines:
            continue
        n_open += len(lines)
        groups.append(
            BoardGroup(
                key,
                titles[key],
                sum(board.n_of.get(state, 0) for state in states),
                lines[:MOST_OPEN_ROWS],
                lines[MOST_OPEN_ROWS:],
                is_open=not groups or n_open <= MOST_OPEN_ROWS,
                repeats_head=bool(groups) or board.own is not None,
            )
        )
    return groups


def named(names: Sequence[str], n: int) -> str:
    """The first names of n, and how many others there are."""
    shown = ", ".join(names[:_MOST_NAMED])
    if n <= _MOST_NAMED:
        return shown
    return _("%(names)s and %(n)s more") % {"names": shown, "n": number_texts.count(n - _MOST_NAMED)}


def draw_board_line(board: AllocationBoard, row: BoardRow) -> BoardLine:
    url = tab_url(board.policy_slug, row.entry, row.name)
    query = urlencode({"unit": board.unit.symbol})
    parent = row.path.rpartition("/")[0].lstrip("/")
    is_usual = row.ends_on == usual_last_day(board)
    days = "" if is_usual else _("until %(day)s") % {"day": day_text(row.ends_on, board.now)}
    outlook, detail = outlook_text(board, row)
    return BoardLine(
        row=row,
        url=f"{url}?{query}",
        parent=parent,
        days=days,
        period=period_text(row.days),
        ends_soon=_ends_soon(board, row),
        used=amount(row.used),
        allocated=amount(row.allocated),
        held=amount(row.held) if row.held else "",
        jobs=_jobs_text(row),
        at_end=amount(row.at_end) if row.at_end is not None else "",
        outlook=outlook,
        detail=detail,
        warnings=_warnings(board, row),
        bar=draw_course(
            css=_CSS.get(row.state, State.IDLE).value,
            allocated=row.allocated,
            used=row.used,
            held=row.held if row.state != "ended" else None,
            due=row.due if row.state not in ("ended", "not_begun") else None,
            at_end=row.at_end if row.state != "ended" else None,
        ),
        label=_bar_label(board, row),
        allocate_url=f"{url}?{query}#allocate" if row.may_allocate else "",
    )


def outlook_text(board: AllocationBoard, row: BoardRow) -> tuple[Balance, str]:
    """A badge on how an allocation will end, and a detail below it."""
    now, unit = board.now, board.unit.symbol
    if row.suppressed:
        return presentation.not_shown(), ""
    if row.state == "used_up":
        more = quantity(-(row.remaining or 0.0), unit)
        detail = _("%(n)s more than allocated") % {"n": more} if (row.remaining or 0.0) < 0 else ""
        return Balance(State.OVER, "", _("used up")), detail
    if row.state == "runs_out" and row.runs_out_on is not None:
        n = (row.ends_on - row.runs_out_on).days
        early = ngettext("%(n)s day before its end", "%(n)s days before its end", n) % {"n": n}
        return Balance(State.OVER, "", _("runs out %(day)s") % {"day": day_text(row.runs_out_on, now)}), early
    if row.state == "unused":
        part = (row.unused or 0.0) / row.allocated if row.allocated else 0.0
        return (
            Balance(State.UNDER, amount(row.unused), _("unused at its end")),
            _("%(part)s of it") % {"part": number_texts.percent(part, 0)},
        )
    if row.state == "on_course":
        detail = ""
        if row.runs_out_on is not None:
            detail = _("until %(day)s") % {"day": day_text(row.runs_out_on, now)}
        return Balance(State.ON, "", _("on course")), detail
    if row.state == "early":
        return Balance(State.IDLE, "", _("too early to say")), _("A forecast needs 7 days of use.")
    if row.state == "not_begun":
        return Balance(State.IDLE, "", _("not begun")), ""
    if row.state == "ended":
        left = _("%(n)s unused") % {"n": quantity(row.unused, unit)} if row.unused else ""
        return Balance(State.IDLE, "", _("ended")), left
    return Balance(State.NO_DATA, "", _("no usage data")), ""


def _ends_soon(board: AllocationBoard, row: BoardRow) -> str:
    """Warning that an allocation ends within 60 days without another that follows; empty otherwise."""
    today = day_of(board.now, board.zone)
    if row.renewed_on is not None or row.ends_on > today + SOON:
        return ""
    words = {"day": day_text(row.ends_on, board.now)}
    return (_("ended %(day)s") if row.ends_on < today else _("ends %(day)s, not renewed")) % words


def _jobs_text(row: BoardRow) -> str:
    if not row.jobs:
        return ""
    return ngettext("%(n)s job", "%(n)s jobs", row.jobs) % {"n": number_texts.count(row.jobs)}


def _warnings(board: AllocationBoard, row: BoardRow) -> list[str]:
    unit, lines = board.unit.symbol, []
    if row.over_committed:
        text = _("Its sub-allocations total %(n)s more than it has.")
        lines.append(text % {"n": quantity(row.over_committed, unit)})
    if row.held_over > 0:
        text = _("Open jobs may use %(n)s more than is left.")
        lines.append(text % {"n": quantity(row.held_over, unit)})
    if row.unlimited_jobs:
        text = ngettext("%(n)s open job has no time limit.", "%(n)s open jobs have no time limit.", row.unlimited_jobs)
        lines.append(text % {"n": number_texts.count(row.unlimited_jobs)})
    return lines


def warning_text(warning: FormWarning, unit: str, now: datetime) -> str:
    """What a form warns of, as one sentence."""
    words = {
        "name": warning.name,
        "n": quantity(warning.amount, unit),
        "all": quantity(warning.of, unit),
        "day": day_text(warning.on, now) if warning.on else "",
    }
    if warning.key == "over":
        return _("%(name)s has %(n)s of %(all)s unallocated on these days.") % words
    if warning.key == "parent_ends":
        return _("The allocation of %(name)s ends on %(day)s, before this one.") % words
    if warning.key == "own_ends":
        return _("Its allocation ends on %(day)s, and none follows.") % words
    if warning.on is not None:
        return _("The allocation of %(name)s runs out on %(day)s, if use continues.") % words
    return _("The allocation of %(name)s is used up.") % words


def _bar_label(board: AllocationBoard, row: BoardRow) -> str:
    """The picture in words, for readers who don't see it."""
    if row.used is None:
        return _("%(n)s allocated; use isn’t shown") % {"n": quantity(row.allocated, board.unit.symbol)}
    words = {
        "used": amount(row.used),
        "all": quantity(row.allocated, board.unit.symbol),
        "due": amount(row.due),
        "end": amount(row.at_end) if row.at_end is not None else "",
    }
    if row.at_end is None or row.state == "ended":
        return _("%(used)s of %(all)s used, %(due)s due") % words
    return _("%(used)s of %(all)s used, %(due)s due, %(end)s at its end if use continues") % words


@dataclass(frozen=True, slots=True)
class BoardVerdict:
    """Headline and sentence. key: none, run_out, unused, fine or open."""

    key: str
    title: str
    text: str


def board_verdict(board: AllocationBoard) -> BoardVerdict:
    """The answer to: who runs out when, and who won't use theirs."""
    counted = [*board.rows, *([board.own] if board.own and board.above else [])]
    unit = board.unit.symbol
    if not counted:
        text = _("Shares decide how much each entry gets.")
        return BoardVerdict("none", _("No %(unit)s are allocated now") % {"unit": unit}, text)
    n_out = sum(board.n_of.get(state, 0) for state in _RUN_OUT)
    n_unused, n_fine = board.n_of.get("unused", 0), board.n_of.get("on_course", 0)
    titles = []
    if n_out:
        titles.append(ngettext("%(n)s runs out early", "%(n)s run out early", n_out) % {"n": n_out})
    if n_unused:
        titles.append(
            ngettext("%(n)s won’t use its allocation", "%(n)s won’t use their allocations", n_unused) % {"n": n_unused}
        )
    sentences = _own_sentences(board)
    used_up = [row.name for row in board.rows if row.state == "used_up"]
    if used_up:
        text = ngettext("%(names)s has used all of it.", "%(names)s have used all of theirs.", len(used_up))
        names = [*used_up[:_MOST_NAMED], *([_("others")] if len(used_up) > _MOST_NAMED else [])]
        sentences.append(text % {"names": ", ".join(names)})
    first = next((row for row in board.rows if row.state == "runs_out" and row.runs_out_on), None)
    if first is not None and first.runs_out_on is not None:
        sentences.append(
            _("%(name)s runs out first, on %(day)s.")
            % {"name": first.name, "day": day_text(first.runs_out_on, board.now)}
        )
    over = [row for row in board.rows if row.over_committed]
    if over:
        worst = max(over, key=lambda row: row.over_committed or 0.0)
        sentences.append(
            _("%(name)s sub-allocates %(n)s more than it has.")
            % {"name": worst.name, "n": quantity(worst.over_committed, unit)}
        )
    if titles:
        key = "run_out" if n_out else "unused"
        return BoardVerdict(key, ", ".join(titles), " ".join(sentences))
    if not board.n_rows and board.own is not None:
        return BoardVerdict("own", _own_title(board, board.own), " ".join(sentences[1:]))
    if n_fine:
        title = ngettext("%(n)s allocation is on course", "All %(n)s allocations are on course", n_fine)
        if n_fine < board.n_rows:
            title = ngettext("%(n)s allocation is on course", "%(n)s allocations are on course", n_fine)
        return BoardVerdict("fine", title % {"n": n_fine}, " ".join(sentences))
    title = ngettext("%(n)s allocation, no forecast yet", "%(n)s allocations, no forecast yet", board.n_rows)
    return BoardVerdict("open", title % {"n": number_texts.count(board.n_rows)}, " ".join(sentences))


def _own_title(board: AllocationBoard, row: BoardRow) -> str:
    balance, _detail = outlook_text(board, row)
    return _("%(name)s: %(outlook)s") % {"name": row.name, "outlook": balance.text}


def _own_sentences(board: AllocationBoard) -> list[str]:
    if board.own is None:
        return []
    row, unit = board.own, board.unit.symbol
    words = {"name": row.name, "left": amount(max(row.remaining or 0.0, 0.0)), "all": quantity(row.allocated, unit)}
    words["day"] = day_text(row.ends_on, board.now)
    if row.remaining is None:
        return [_("%(name)s has %(all)s until %(day)s.") % words]
    return [_("%(name)s has %(left)s of %(all)s left until %(day)s.") % words]


def usual_last_day(board: AllocationBoard) -> date | None:
    """The last day that more than half of the rows have, which the heading then says once; None without one."""
    counted = Counter(row.ends_on for row in board.rows).most_common(1)
    return counted[0][0] if counted and 2 * counted[0][1] > len(board.rows) else None


def board_title(board: AllocationBoard) -> str:
    last = usual_last_day(board)
    if last is None:
        return _("Allocations of now, %(unit)s") % {"unit": board.unit.symbol}
    words = {"day": day_text(last, board.now), "unit": board.unit.symbol}
    return _("Allocations until %(day)s, %(unit)s") % words


def without_text(n: int) -> str:
    """Title of the closed line with those that have no allocation."""
    return ngettext("%(n)s without an allocation", "%(n)s without an allocation", n) % {"n": number_texts.count(n)}


def board_figures(board: AllocationBoard) -> list[dict[str, Any]]:
    """Three key figures: what won't be used, what can be given, and what open jobs hold."""
    unit = board.unit.symbol
    n_unused = board.n_of.get("unused", 0)
    figures = [
        {
            "key": "unused",
            "label": _("Unused at their end"),
            "value": amount(board.unused),
            "note": f"{unit} · "
            + ngettext("%(n)s entry", "%(n)s entries", n_unused) % {"n": number_texts.count(n_unused)},
        },
        _to_give_figure(board),
        {
            "key": "held",
            "label": _("Held by open jobs"),
            "value": amount(board.held),
            "note": _("not shown")
            if board.held is None
            else f"{unit} · "
            + ngettext("%(n)s job", "%(n)s jobs", board.jobs or 0) % {"n": number_texts.count(board.jobs or 0)},
        },
    ]
    return figures


def _to_give_figure(board: AllocationBoard) -> dict[str, Any]:
    give, unit = board.to_give, board.unit.symbol
    figure: dict[str, Any] = {"key": "to_give", "label": _("Can be allocated"), "value": amount(None), "url": ""}
    if give is None:
        if not board.above:
            note = _("not all entries are visible to you") if board.has_capacity else _("no capacity recorded")
        else:
            note = _("not all entries are visible to you") if board.own else _("no allocation of its own")
        return {**figure, "note": note}
    last = day_text(give.days.ends_on, board.now)
    note = _("%(unit)s until %(day)s") % {"unit": unit, "day": last}
    url = reverse("pages:capacities", kwargs={"policy": board.policy_slug}) if give.of_capacity else ""
    return {**figure, "value": amount(give.amount), "note": note, "url": url}


def board_unit_choices(board: AllocationBoard, group: str) -> list[dict[str, Any]]:
    """Links to the board in each unit that an allocation or a capacity has; empty if that is only one."""
    shown = [unit for unit in board.units if unit.symbol in board.in_use or unit == board.unit]
    if len(shown) < 2:
        return []
    return [
        {
            "label": unit.symbol,
            "title": unit.name,
            "query": urlencode({"unit": unit.symbol}) + group,
            "is_chosen": unit == board.unit,
        }
        for unit in shown
    ]


def board_csv_header() -> list[str]:
    return [
        *("path", "kind", "starts_on", "ends_on", "unit", "allocated", "due", "used", "held", "jobs", "unlimited_jobs"),
        *("remaining", "state", "at_end", "unused", "runs_out_on", "renewed_on", "sub_allocated", "over_committed"),
    ]


def board_csv_row(row: BoardRow, unit: str) -> list[Any]:
    cells: list[Any] = [unit if name == "unit" else getattr(row, name) for name in board_csv_header()]
    return [cell.isoformat() if isinstance(cell, date) else "" if cell is None else cell for cell in cells]
