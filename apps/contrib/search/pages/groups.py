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
from apps.contrib.search.pages.answers import answers_to
from apps.contrib.search.pages.catalogue import Choice, SearchContext
from apps.contrib.search.pages.standing import standing_text
from apps.contrib.search.selectors import MOST_OF_SEARCH_GROUP, ChangeSetHit, Group, Hit, SearchResult, SourceHit
from apps.policies.models import ChangeSet
from apps.priorities.sentences import Message
from apps.web.shell import lines
from apps.web.templatetags.marks import kind_icon, kind_label

MOST_SEARCH_LINES = 20  # in all groups together

LABELS = {
    "answers": gettext_lazy("Answers"),
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
_JOBS = {
    "pending": gettext_lazy("Waiting job of %(user)s"),
    "held": gettext_lazy("Held job of %(user)s"),
    "running": gettext_lazy("Running job of %(user)s"),
    "finished": gettext_lazy("Finished job of %(user)s"),
    "withdrawn": gettext_lazy("Cancelled job of %(user)s"),
    "charge": gettext_lazy("Charge of %(user)s without a job"),
}


@dataclass(frozen=True, slots=True)
class ResultGroup:
    """Results of one kind.

    key: of LABELS. more: number of further results, None if not counted; more_url lists them. notes: sentences about
    the ranks in it that a scheduler doesn't use.
    """

    key: str
    items: Sequence[Choice]
    more: int | None = 0
    more_url: str = ""
    notes: Sequence[Message] = ()

    @property
    def label(self) -> str:
        return str(LABELS[self.key])

    @property
    def spoken_label(self) -> str:
        """The label with the notes, for screen readers: inside a list of options they reach only its labels."""
        return " ".join((f"{self.label}.", *map(str, self.notes))) if self.notes else self.label


def groups_of(result: SearchResult, here: SearchContext, *, only: str = "") -> list[ResultGroup]:
    """Result groups, the best match first, of at most MOST_SEARCH_LINES in all. only: the one group to return."""
    made = [(group.hits[0].match, _hit_group(group, result.query, here, only)) for group in result.groups]
    denied: list[ResultGroup] = []
    if not only:
        made += _static_groups(result.query, here)
        denied = _denied(result.query, here)
        if answers := answers_to(result.query, here):
            made.append((Match.BEGINS, ResultGroup("answers", answers)))
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
    url = f"{reverse('pages:search')}?{urlencode({'q': query, 'in': group.kind})}"
    return ResultGroup(group.kind, items, more, "" if only or more == 0 else url, group.rank_use)


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
            groups.append((hits[0][0], ResultGroup(key, [choice for _match, choice in hits[:MOST_OF_SEARCH_GROUP]])))
    return groups


def _matching(choices: Iterable[Choice], query: str) -> list[tuple[Match, Choice]]:
    """Choices whose title or note matches the query, best match first."""
    wanted, hits = fold(query), []
    for choice in choices:
        match = match_of(fold(choice.title), wanted)
        if (match is None or match > Match.NOTE) and wanted in fold(choice.note):
            match = Match.NOTE
        if (match is None or match > Match.CONTAINS) and _begins_each_word(choice, wanted):
            match = Match.WORD_BEGINS
        if match is not None:
            hits.append((match, choice))
    return sorted(hits, key=lambda hit: (hit[0], len(hit[1].title)))


def _begins_each_word(choice: Choice, wanted: str) -> bool:
    """Whether each typed word begins one of the title or of the other words by which it is found."""
    known = fold(f"{choice.title} {choice.words}").split()
    return all(any(word.startswith(part) for word in known) for part in wanted.split())


def _denied(query: str, here: SearchContext) -> list[ResultGroup]:
    """Matching actions that the actor may not do, and what they can do instead."""
    denied = [choice for choice in catalogue.actions(here) if choice.is_denied]
    hits = [choice for match, choice in _matching(denied, query) if match <= Match.WORD_BEGINS][:2]
    if not hits:
        return []
    return [ResultGroup("denied", hits), ResultGroup("instead", list(catalogue.alternatives(here)))]


def _trimmed(groups: Sequence[ResultGroup]) -> list[ResultGroup]:
    """Groups cut to MOST_SEARCH_LINES lines in all: first one line of each group, then a second of each, and so on."""
    rounds = zip_longest(*(group.items for group in groups))
    kept = [0] * len(groups)
    for line in rounds:
        for at, item in enumerate(line):
            if item is not None and sum(kept) < MOST_SEARCH_LINES:
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
        state = f"{ChangeSet.State(hit.state).label}, {hit.author}"
        note = " · ".join(part for part in (hit.reason.rstrip("."), state) if part)
        return Choice("git-pull-request", hit.title, note, reverse("pages:change", kwargs={"change_set": hit.id}))
    if isinstance(hit, SourceHit):
        return Choice("database-import", hit.title, hit.slug, reverse("pages:source", kwargs={"slug": hit.slug}))
    url = f"{reverse('pages:audit')}?{urlencode({'who': hit.username})}"
    return Choice("id-badge-2", hit.title, _("signs in as %(name)s") % {"name": hit.username}, url)


def _entry(hit: EntryHit) -> Choice:
    """A result for an entry; a root links to its tree, any other entry to its page."""
    if hit.path == "/":
        url = reverse("pages:policy", kwargs={"policy": hit.policy_slug})
        return Choice("sitemap", hit.title, _("Policy"), url, ref=f"{hit.policy_slug}:{hit.uid}")
    above = " / ".join(hit.path.split("/")[1:-1]) or hit.policy_name
    place = above
    if hit.kind == "account":
        place = _("Account: %(path)s") % {"path": hit.path}
    elif hit.kind == "entry":
        place = _("%(kind)s in %(above)s") % {"kind": kind_label(hit.entry_kind), "above": above}
    note = " · ".join(part for part in (place, standing_text(hit)) if part)
    url = lines.entry_url(hit.policy_slug, hit.uid, hit.path.rpartition("/")[2])
    return Choice(kind_icon(hit.entry_kind), hit.title, note, url, ref=f"{hit.policy_slug}:{hit.uid}")


def _job(hit: JobHit) -> Choice:
    """A result for a job: one of a scheduler's queue links to why it waits, any other to its charge."""
    note = " · ".join((str(_JOBS[hit.state]) % {"user": hit.user}, hit.origin, hit.policy_name))
    if hit.record_id is not None:
        url = reverse("pages:charge", kwargs={"policy": hit.policy_slug, "record": hit.record_id})
        return Choice("stack-2", hit.title, note, url)
    url = reverse("pages:job-why-of", kwargs={"policy": hit.policy_slug, "job": hit.number.replace("/", "")})
    return Choice("clock", hit.title, note, f"{url}?{urlencode({'scheduler': hit.origin})}")


def recent_refs(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(policy, uid) of the last three opened entries, which the browser stores as `policy:uid`; skips invalid ones."""
    for text in list(texts)[:3]:
        slug, colon, uid = text.partition(":")
        if colon and slug and len(uid) == 36:
            yield slug, uid
