"""One mount in words: what is in force, what happens next, its looks, and the document beside our tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.dashboard.federation import presenters as federation_lines
from apps.dashboard.shell import lines, presentation
from apps.dashboard.shell.keyed import Keyed, joined
from apps.federation.models import Fetch, Mount
from apps.federation.mounts.differences import Differences, Stated
from apps.federation.staleness import Condition, age_of, is_stale

_OUTCOMES = {
    Fetch.Outcome.SAME.value: ("ok", gettext_lazy("Unchanged")),
    Fetch.Outcome.LANDED.value: ("ok", gettext_lazy("Applied")),
    Fetch.Outcome.HELD.value: ("warn", gettext_lazy("Held for review")),
    Fetch.Outcome.FROZEN.value: ("off", gettext_lazy("Fetched, not applied")),
    Fetch.Outcome.REFUSED.value: ("bad", gettext_lazy("Rejected")),
    Fetch.Outcome.UNREACHABLE.value: ("bad", gettext_lazy("No answer")),
}


@dataclass(frozen=True, slots=True)
class Look:
    """One line of the timeline."""

    fetch: Fetch
    dot: str
    outcome: str
    note: str
    effort: str


@dataclass(frozen=True, slots=True)
class StatedLine:
    """One entry of the document beside ours."""

    row: Stated
    url: str
    stated: str
    inside: str
    asked: str
    here: str
    mark: str


def look(fetch: Fetch) -> Look:
    dot, outcome = _OUTCOMES[fetch.outcome]
    said = _("version %(n)s") % {"n": presentation.count(fetch.version)} if fetch.version else ""
    effort = _("%(size)s in %(time)s") % {"size": size(fetch.n_bytes), "time": federation_lines.took(fetch.duration_s)}
    effort = effort if fetch.n_bytes else ""
    return Look(fetch, dot, f"{outcome}, {said}" if said else str(outcome), fetch.message, effort)


def size(n_bytes: int) -> str:
    """212 kB."""
    if n_bytes < 1_000:
        return f"{n_bytes}{presentation.NBSP}B"
    if n_bytes < 1_000_000:
        return f"{n_bytes / 1_000:.0f}{presentation.NBSP}kB"
    return f"{n_bytes / 1_000_000:.1f}{presentation.NBSP}MB"


def title(mount: Mount, at: datetime) -> Keyed:
    """What is in force, from whom, how old: the sentence on top."""
    if not mount.landed_version:
        return Keyed("nothing_yet", _("No version of %(name)s is active yet") % {"name": mount.issuer})
    age_s = age_of(mount, at)
    said = {"n": presentation.count(mount.landed_version), "name": mount.issuer}
    if age_s is None:
        return Keyed("in_force", _("Version %(n)s of %(name)s is active") % said)
    said["age"] = presentation.age(age_s)
    return Keyed("confirmed", _("Version %(n)s of %(name)s is active, confirmed %(age)s ago") % said)


def next_step(mount: Mount, condition: Condition, at: datetime) -> Keyed:
    """What holds, and what would happen next."""
    alone = {
        Condition.BLOCKED: _(
            "Blocked: its key changed or its history was forked. It isn’t fetched until an administrator "
            "decides. The current version stays."
        ),
        Condition.PAUSED: _("Paused: it isn’t fetched until you resume it. The current version stays."),
        Condition.FROZEN: _("Frozen: it is fetched, but no newer version is applied until you unfreeze it."),
    }
    if condition in alone:
        return Keyed(condition, alone[condition])
    told = []
    if condition is Condition.EXPIRED:
        told.append(Keyed(condition, _("The document has expired, and no newer one was published.")))
    elif condition is Condition.STALE:
        allowed = {"allowed": federation_lines.allowed_words(mount.max_age_s)}
        told.append(Keyed(condition, _("The last successful fetch is more than %(allowed)s old.") % allowed))
    elif condition is Condition.HELD:
        text = _("A newer version exceeds the limits and waits for a decision.")
        told.append(Keyed(condition, text))
    elif condition is Condition.LATE:
        told.append(federation_lines.late_words(mount, federation_lines.meanwhile(mount.stale_action)))
    if condition in (Condition.EXPIRED, Condition.STALE):
        action = mount.stale_action if is_stale(mount, at) else Mount.StaleAction.KEEP.value
        told.append(federation_lines.meanwhile(action))
        if mount.state == Mount.State.FROZEN and action != Mount.StaleAction.FREEZE:
            text = _("It is also frozen: no newer version is applied until you unfreeze it.")
            told.append(Keyed("frozen_too", text))
    if mount.due_at is not None and mount.due_at > at:
        time = {"time": presentation.clock_time(mount.due_at, at)}
        told.append(Keyed("due_later", _("Next fetch at %(time)s.") % time))
    elif mount.due_at is not None:
        told.append(Keyed("due_now", _("The next fetch is due now.")))
    return joined(told)


def held_words(mount: Mount) -> str:
    """Which version waits, and what for."""
    return _("Version %(n)s waits for a decision.") % {"n": presentation.count(mount.version)}


def stated_lines(found: Differences, rows: Iterable[Stated]) -> list[StatedLine]:
    slug = found.mount.policy.slug
    return [_stated(row, slug) for row in rows]


def stated_verdict(found: Differences) -> str:
    """All 12 entries are in our tree as the document says; or how many aren't."""
    n, odd = len(found.stated), found.n_differing
    if not odd:
        return ngettext("Its %(n)s entry matches the document", "All %(n)s entries match the document", n) % {
            "n": presentation.count(n)
        }
    return ngettext("%(odd)s of %(n)s entry differs", "%(odd)s of %(n)s entries differ", n) % {
        "odd": presentation.count(odd),
        "n": presentation.count(n),
    }


def _stated(row: Stated, slug: str) -> StatedLine:
    mark = ""
    if not row.in_tree:
        mark = _("not in our tree yet")
    elif not row.in_document:
        mark = _("no longer in the document")
    return StatedLine(
        row=row,
        url=lines.entry_url(slug, row.uid, row.name) if row.in_tree else "",
        stated=presentation.shares_short(row.shares_stated) if row.in_document else presentation.UNKNOWN,
        inside=presentation.percent(row.inside),
        asked=presentation.percent(row.asked),
        here=presentation.percent(row.here),
        mark=mark,
    )


def page_of(rows: Sequence[Stated], start: int, most: int) -> tuple[Sequence[Stated], int | None]:
    """A part of a list, and where the next one begins."""
    return rows[start : start + most], start + most if len(rows) > start + most else None
