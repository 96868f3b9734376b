"""The state of a mount, and the shares of its document beside ours, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.federation.conditions import Condition, age_of
from apps.federation.models import Mount
from apps.federation.mounts.selectors import ComparedEntry, Differences
from apps.federation.staleness import is_stale
from apps.pages.federation import presenters as federation_presenters
from apps.priorities.sentences import numbers
from apps.web.shell import lines, presentation
from apps.web.shell.presentation import KeyedText, joined
from apps.web.texts import conditions


@dataclass(frozen=True, slots=True)
class StatedLine:
    """Shares of one entry in the document and in our tree."""

    row: ComparedEntry
    url: str
    stated: str
    inside: str
    asked: str
    here: str
    mark: str


def title(mount: Mount, at: datetime) -> KeyedText:
    """Headline with the active version, its issuer, and its age."""
    if not mount.applied_version:
        return KeyedText("nothing_yet", _("No version of %(name)s is active yet") % {"name": mount.issuer})
    age_s = age_of(mount, at)
    words = {"n": numbers.count(mount.applied_version), "name": mount.issuer}
    if age_s is None:
        return KeyedText("active", _("Version %(n)s of %(name)s is active") % words)
    words["age"] = presentation.age(age_s)
    return KeyedText("confirmed", _("Version %(n)s of %(name)s is active, confirmed %(age)s ago") % words)


def next_step(mount: Mount, condition: Condition, at: datetime) -> KeyedText:
    """Sentences on the mount's condition, its effect, and the next fetch."""
    alone = {
        Condition.BLOCKED: _(
            "Blocked: its key changed or its history was forked. It isn’t fetched until an administrator "
            "decides. The current version stays."
        ),
        Condition.PAUSED: _("Paused: it isn’t fetched until you resume it."),
        Condition.FROZEN: _("Frozen: it is fetched, but not applied."),
    }
    if condition in alone:
        return KeyedText(condition, alone[condition])
    texts = []
    if condition is Condition.EXPIRED:
        texts.append(KeyedText(condition, _("The document has expired, and no newer one was published.")))
    elif condition is Condition.STALE:
        allowed = {"allowed": federation_presenters.allowed_text(mount.max_age_s)}
        texts.append(KeyedText(condition, _("The last successful fetch is more than %(allowed)s old.") % allowed))
    elif condition is Condition.LATE:
        texts.append(federation_presenters.late_text(mount, conditions.meanwhile(mount.stale_action)))
    if condition in (Condition.EXPIRED, Condition.STALE):
        action = mount.stale_action if is_stale(mount, at) else Mount.StaleAction.KEEP.value
        texts.append(conditions.meanwhile(action))
        if mount.state == Mount.State.FROZEN and action != Mount.StaleAction.FREEZE:
            text = _("Frozen: it is fetched, but not applied.")
            texts.append(KeyedText("frozen_too", text))
    if mount.due_at is not None:
        if mount.due_at > at:
            time = {"time": presentation.clock_time(mount.due_at, at)}
            texts.append(KeyedText("due_later", _("The next fetch is at %(time)s.") % time))
        else:
            texts.append(KeyedText("due_now", _("The next fetch is due now.")))
    return joined(texts)


def stated_lines(differences: Differences, rows: Iterable[ComparedEntry]) -> list[StatedLine]:
    slug = differences.mount.policy.slug
    return [_stated(row, slug) for row in rows]


def stated_verdict(differences: Differences) -> str:
    """Sentence on how many entries of our tree match the document."""
    n, n_differing = len(differences.stated), differences.n_differing
    if not n_differing:
        return ngettext("Its %(n)s entry matches the document", "All %(n)s entries match the document", n) % {
            "n": numbers.count(n)
        }
    return ngettext("%(differing)s of %(n)s entry differs", "%(differing)s of %(n)s entries differ", n) % {
        "differing": numbers.count(n_differing),
        "n": numbers.count(n),
    }


def _stated(row: ComparedEntry, slug: str) -> StatedLine:
    mark = ""
    if not row.in_tree:
        mark = _("not in our tree yet")
    elif not row.in_document:
        mark = _("no longer in the document")
    decimals = numbers.decimals_beside(row.asked, row.here)
    return StatedLine(
        row=row,
        url=lines.entry_url(slug, row.uid, row.name) if row.in_tree else "",
        stated=presentation.shares_short(row.shares_stated) if row.in_document else numbers.UNKNOWN,
        inside=numbers.percent(row.inside),
        asked=numbers.percent(row.asked, decimals),
        here=numbers.percent(row.here, decimals),
        mark=mark,
    )
