"""By whose usage entries are compared, in words: a badge where an entry says it, and the full phrase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from apps.priorities.selectors import EntryRow


@dataclass(frozen=True, slots=True)
class ScopeBadge:
    """scope: `local` or `global`. short: for a badge; words: for a title, and for who can't see it."""

    scope: str
    sources: Sequence[str]
    short: str
    words: str


def badge_of(entry: EntryRow) -> ScopeBadge | None:
    """None for an entry that has its parent's scope, and for one without children, where a scope has no effect."""
    if not entry.scope or not (entry.n_children or entry.hidden_children):
        return None
    words = _("Children are compared by %(usage)s") % {"usage": phrase(entry.scope, entry.scope_sources)}
    return ScopeBadge(entry.scope, entry.scope_sources, _short(entry.scope, entry.scope_sources), words)


def phrase(scope: str, sources: Sequence[str]) -> str:
    """Such as "global usage, all sites" and "local usage, only of cluster"."""
    usage = _("global usage") if scope == "global" else _("local usage")
    if sources:
        return _("%(usage)s, only of %(sources)s") % {"usage": usage, "sources": ", ".join(sources)}
    return _("%s, all sites") % usage if scope == "global" else _("%s, this site") % usage


def _short(scope: str, sources: Sequence[str]) -> str:
    if sources:
        return _("only %(sources)s") % {"sources": ", ".join(sources)}
    return _("global") if scope == "global" else _("local")
