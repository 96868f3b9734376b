"""What the palette and the page of search list: groups of results and their lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.contrib.search.entries import EntryHit
from apps.contrib.search.jobs import JobHit
from apps.contrib.search.name_index import Match, fold, match_of
from apps.contrib.search.pages import catalogue
from apps.contrib.search.pages.catalogue import Choice, SearchContext
from apps.contrib.search.selectors import MOST_EACH, ChangeSetHit, Group, Hit, SearchResult, SourceHit
from apps.policies.models import ChangeSet
from apps.web.shell import lines, presentation
from apps.web.templatetags.marks import kind_icon, kind_label

MOST_LINES = 20  # in all groups together

LABELS = {
    "recent": gettext_lazy("Recent"),
    "actions": gettext_lazy("Actions"),
    "entries": gettext_lazy("Entries"),
    "people": gettext_lazy("People and accounts"),
    "jobs": gettext_lazy("Jobs"),
    "changes": gettext_lazy("Changes"),
    "sources": gettext_lazy("Usage sources"),
    "pages": gettext_lazy("Pages"),
    "settings": gettext_lazy("Settings"),
    "guides": gettext_lazy("Guides"),
    "denied": gettext_lazy("Not allowed for you"),
    "instead": gettext_lazy("Instead"),
}
_ORDER = tuple(LABELS)
LISTED_ALONE = ("entries", "people", "jobs", "changes", "sources")


@dataclass(frozen=True, slots=True)
class ResultGroup:
    """Results of one kind.

    key: of LABELS. more: number of further results, None if not counted; more_url lists them.
    """

    key: str
    items: Sequence[Choice]
    more: int | None = 0
    more_url: str = ""

    @property
    def label(self) -> str:
        return str(LABELS[self.key])


def groups_of(result: SearchResult, here: SearchContext, *, only: str = "") -> list[ResultGroup]:
    """Result groups, the best match first, with at most MOST_LINES lines in all. only: the one group to return."""
    made = [(group.hits[0].match, _hit_group(group, result.query, here, only)) for group in result.groups]
    denied: list[ResultGroup] = []
    if not only:
        made += _static_groups(result.query, here)
        denied = _denied(result.query, here)
    made.sort(key=lambda pair: (pair[0], _ORDER.index(pair[1].key)))
    groups = [group for _match, group in made]
    return (groups if only else _trimmed(groups)) + denied


def empty_groups(recent: Sequence[EntryHit], here: SearchContext) -> list[ResultGroup]:
    """Result groups for an empty search field: recent entries and actions."""
    allowed = [choice for choice in catalogue.actions(here) if not choice.is_denied][:3]
    groups = [
        ResultGroup("recent", [_entry(hit) for hit in recent]),
        ResultGroup("actions", allowed),
    ]
    return [group for group in groups if group.items]


def _hit_group(group: Group, query: str, here: SearchContext, only: str) -> ResultGroup:
    items = [_choice(hit) for hit in group.hits]
    more = None if group.n is None else max(group.n - len(items), 0)
    url = f"{reverse('dashboard:search')}?{urlencode({'q': query, 'in': group.kind})}"
    return ResultGroup(group.kind, items, more, "" if only or more == 0 else url)


def _static_groups(query: str, here: SearchContext) -> list[tuple[Match, ResultGroup]]:
    """Matching pages, settings, actions and guides."""
    groups = []
    kinds = {
        "actions": catalogue.actions,
        "pages": catalogue.pages,
        "settings": catalogue.settings,
        "guides": catalogue.guides,
    }
    for key, choices in kinds.items():
        hits = _matching([choice for choice in choices(here) if not choice.is_denied], query)
        if hits:
            groups.append((hits[0][0], ResultGroup(key, [choice for _match, choice in hits[:MOST_EACH]])))
    return groups


def _matching(choices: Iterable[Choice], query: str) -> list[tuple[Match, Choice]]:
    """Choices whose title or note matches the query, best match first."""
    wanted, hits = fold(query), []
    for choice in choices:
        match = match_of(fold(choice.title), wanted)
        if (match is None or match > Match.NOTE) and wanted in fold(choice.note):
            match = Match.NOTE
        if match is not None:
            hits.append((match, choice))
    return sorted(hits, key=lambda hit: (hit[0], len(hit[1].title)))


def _denied(query: str, here: SearchContext) -> list[ResultGroup]:
    """Matching actions that the actor may not do, and what they can do instead."""
    denied = [choice for choice in catalogue.actions(here) if choice.is_denied]
    hits = [choice for match, choice in _matching(denied, query) if match <= Match.WORD_BEGINS][:2]
    if not hits:
        return []
    return [ResultGroup("denied", hits), ResultGroup("instead", list(catalogue.alternatives(here)))]


def _trimmed(groups: Sequence[ResultGroup]) -> list[ResultGroup]:
    """Groups cut to MOST_LINES lines in all: first one line of each group, then a second of each, and so on."""
    rounds = zip_longest(*(group.items for group in groups))
    kept = [0] * len(groups)
    for line in rounds:
        for at, item in enumerate(line):
            if item is not None and sum(kept) < MOST_LINES:
                kept[at] += 1
    return [
        replace(group, items=group.items[:n], more=None if group.more is None else group.more + len(group.items) - n)
        for group, n in zip(groups, kept, strict=True)
        if n
    ]


def _choice(hit: Hit) -> Choice:
    if isinstance(hit, EntryHit):
        return _entry(hit)
    if isinstance(hit, JobHit):
        return _job(hit)
    if isinstance(hit, ChangeSetHit):
        title = hit.title or _("Change set %(n)s") % {"n": hit.id}
        note = f"{ChangeSet.State(hit.state).label}, {hit.author}"
        return Choice("git-pull-request", title, note, reverse("dashboard:change", kwargs={"change_set": hit.id}))
    if isinstance(hit, SourceHit):
        return Choice("database-import", hit.title, hit.slug, reverse("dashboard:source", kwargs={"slug": hit.slug}))
    url = f"{reverse('dashboard:audit')}?{urlencode({'who': hit.username})}"
    return Choice("id-badge-2", hit.title, _("signs in as %(name)s") % {"name": hit.username}, url)


def _entry(hit: EntryHit) -> Choice:
    """A result for an entry; a root links to its tree, any other entry to its page."""
    if hit.path == "/":
        url = reverse("dashboard:policy", kwargs={"policy": hit.policy_slug})
        return Choice("sitemap", hit.title, _("Policy"), url, ref=f"{hit.policy_slug}:{hit.uid}")
    above = " / ".join(hit.path.split("/")[1:-1]) or hit.policy_name
    place = above
    if hit.kind == "account":
        place = _("Account: %(path)s") % {"path": hit.path}
    elif hit.kind == "entry":
        place = _("%(kind)s in %(above)s") % {"kind": kind_label(hit.entry_kind), "above": above}
    note = " · ".join(part for part in (place, standing(hit)) if part)
    url = lines.entry_url(hit.policy_slug, hit.uid, hit.path.rpartition("/")[2])
    return Choice(kind_icon(hit.entry_kind), hit.title, note, url, ref=f"{hit.policy_slug}:{hit.uid}")


_JOBS = {
    "pending": gettext_lazy("Waiting job of %(user)s"),
    "held": gettext_lazy("Held job of %(user)s"),
    "running": gettext_lazy("Running job of %(user)s"),
    "finished": gettext_lazy("Finished job of %(user)s"),
    "withdrawn": gettext_lazy("Cancelled job of %(user)s"),
    "charge": gettext_lazy("Charge of %(user)s without a job"),
}


def _job(hit: JobHit) -> Choice:
    """A result for a job: one of a scheduler's queue links to why it waits, any other to its charge."""
    note = " · ".join((str(_JOBS[hit.state]) % {"user": hit.user}, hit.origin, hit.policy_name))
    if hit.record_id is not None:
        url = reverse("dashboard:charge", kwargs={"policy": hit.policy_slug, "record": hit.record_id})
        return Choice("stack-2", hit.title, note, url)
    url = reverse("dashboard:job-why-of", kwargs={"policy": hit.policy_slug, "job": hit.number.replace("/", "")})
    return Choice("clock", hit.title, note, f"{url}?{urlencode({'scheduler': hit.origin})}")


def standing(hit: EntryHit) -> str:
    """Rank and balance of a hit, as far as the reader sees them: what most searches for a name ask."""
    if hit.rank is None:
        return ""
    numbers = {"rank": presentation.count(hit.rank)}
    if hit.actual is None or hit.target is None:
        return _("Rank %(rank)s") % numbers
    numbers["points"] = presentation.compare_shares(hit.actual, hit.target).points
    if hit.state == "over":
        return _("Rank %(rank)s, %(points)s over") % numbers
    if hit.state == "under":
        return _("Rank %(rank)s, %(points)s under") % numbers
    if hit.state == "idle":
        return _("Rank %(rank)s, no demand") % numbers
    return _("Rank %(rank)s, on target") % numbers


def recent_refs(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(policy, uid) of the last three opened entries, which the browser stores as `policy:uid`; skips invalid ones."""
    for text in list(texts)[:3]:
        slug, colon, uid = text.partition(":")
        if colon and slug and len(uid) == 36:
            yield slug, uid
