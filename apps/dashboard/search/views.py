"""Search as a page and as the fragment of the palette, and the switch for single-key shortcuts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from apps.core.errors import DomainError
from apps.dashboard.figures import bars
from apps.dashboard.figures.bars import State
from apps.dashboard.search import catalogue
from apps.dashboard.search.catalogue import Choice, SearchContext
from apps.dashboard.shell import lines, presentation
from apps.dashboard.shell.navigation import KEYS_COOKIE
from apps.dashboard.shell.requests import SeeOther, actor_of, fragment, private
from apps.dashboard.templatetags.marks import kind_icon, kind_label
from apps.policies.models import ChangeSet
from apps.policies.selectors import list_policies
from apps.priorities.selectors.rows import open_view
from apps.search.answers import Link, SearchAnswer, SearchRow, examples
from apps.search.entries import EntryHit, find_by_uid
from apps.search.name_index import Match, fold, match_of
from apps.search.selectors import (
    LONGEST,
    MOST_EACH,
    MOST_LISTED,
    ChangeSetHit,
    Group,
    GroupKind,
    Hit,
    SearchResult,
    SourceHit,
    search_everything,
)

MOST_LINES = 20  # in all groups together
_BAR_WIDTH = 120

LABELS = {
    "recent": gettext_lazy("Recent"),
    "actions": gettext_lazy("Actions"),
    "entries": gettext_lazy("Entries"),
    "people": gettext_lazy("People and accounts"),
    "changes": gettext_lazy("Changes"),
    "sources": gettext_lazy("Usage sources"),
    "pages": gettext_lazy("Pages"),
    "settings": gettext_lazy("Settings"),
    "guides": gettext_lazy("Guides"),
    "questions": gettext_lazy("Questions"),
    "open": gettext_lazy("Open"),
    "alike": gettext_lazy("Did you mean"),
    "denied": gettext_lazy("Not allowed for you"),
    "instead": gettext_lazy("Instead"),
}
_ORDER = tuple(LABELS)
LISTED_ALONE = ("entries", "people", "changes", "sources")


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


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One entry of an answer: its numbers and its bar."""

    name: str
    url: str
    bar: bars.Bullet | None
    actual: str
    target: str
    balance: presentation.Balance
    since: Any


def groups_of(found: SearchResult, here: SearchContext, *, only: str = "") -> list[ResultGroup]:
    """Result groups, the best match first, with at most MOST_LINES lines in all. only: the one group to return."""
    made = [(group.hits[0].match, _found_group(group, found.query, here, only)) for group in found.groups]
    denied: list[ResultGroup] = []
    if not only:
        made += _static_groups(found.query, here)
        denied = _denied(found.query, here)
    made.sort(key=lambda pair: (pair[0], _ORDER.index(pair[1].key)))
    groups = [group for _match, group in made]
    return (groups if only else _trimmed(groups)) + denied


def empty_groups(recent: Sequence[EntryHit], questions: Sequence[str], here: SearchContext) -> list[ResultGroup]:
    """Result groups for an empty search field: recent entries, actions and example questions."""
    allowed = [choice for choice in catalogue.actions(here) if not choice.is_denied][:3]
    groups = [
        ResultGroup("recent", [_entry(hit) for hit in recent]),
        ResultGroup("actions", allowed),
        ResultGroup("questions", [_question(text) for text in questions]),
    ]
    return [group for group in groups if group.items]


def answer_groups(answer: SearchAnswer) -> list[ResultGroup]:
    """Links and similar names offered below an answer."""
    groups = [
        ResultGroup("open", [_link(link) for link in answer.links]),
        ResultGroup("questions", [_question(text) for text in answer.examples]),
        ResultGroup("alike", [_name(name) for name in answer.alike]),
    ]
    return [group for group in groups if group.items]


def _found_group(group: Group, query: str, here: SearchContext, only: str) -> ResultGroup:
    items = [_choice(hit) for hit in group.hits]
    more = None if group.n is None else max(group.n - len(items), 0)
    url = f"{reverse('dashboard:search')}?{urlencode({'q': query, 'in': group.kind})}"
    return ResultGroup(group.kind, items, more, "" if only or more == 0 else url)


def _static_groups(query: str, here: SearchContext) -> list[tuple[Match, ResultGroup]]:
    """Matching pages, settings, actions and guides."""
    found = []
    kinds = {
        "actions": catalogue.actions,
        "pages": catalogue.pages,
        "settings": catalogue.settings,
        "guides": catalogue.guides,
    }
    for key, choices in kinds.items():
        hits = _matching([choice for choice in choices(here) if not choice.is_denied], query)
        if hits:
            found.append((hits[0][0], ResultGroup(key, [choice for _match, choice in hits[:MOST_EACH]])))
    return found


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
    note = above
    if hit.kind == "account":
        note = f"{_('Account')}: {hit.path}"
    elif hit.kind == "entry":
        note = _("%(name)s in %(parent)s") % {"name": kind_label(hit.entry_kind), "parent": above}
    if hit.rank is not None:
        note = f"{note}, {_('Rank')} {presentation.count(hit.rank)}"
    url = lines.entry_url(hit.policy_slug, hit.uid, hit.path.rpartition("/")[2])
    return Choice(kind_icon(hit.entry_kind), hit.title, note, url, ref=f"{hit.policy_slug}:{hit.uid}")


def _question(text: str) -> Choice:
    return Choice("message", text, url=f"{reverse('dashboard:search')}?{urlencode({'q': text})}", question=text)


def _name(name: str) -> Choice:
    return Choice("search", name, url=f"{reverse('dashboard:search')}?{urlencode({'q': name})}", question=name)


def answer_rows(answer: SearchAnswer, tolerance: bars.Tolerance) -> list[AnswerRow]:
    pairs = [(row.actual, row.target) for row in answer.rows if row.actual is not None and row.target is not None]
    scale = bars.share_scale(pairs, tolerance)
    return [_row(answer, row, scale, tolerance) for row in answer.rows]


def _row(answer: SearchAnswer, row: SearchRow, scale: float, tolerance: bars.Tolerance) -> AnswerRow:
    balance = presentation.balance(
        row.actual, row.target, has_usage=row.actual is None or row.actual > 0, tolerance=tolerance
    )
    shares = presentation.compare_shares(row.actual, row.target)
    bar = bars.draw(
        actual=row.actual,
        target=row.target,
        maximum=scale,
        state=balance.state,
        width=_BAR_WIDTH,
        tolerance=tolerance,
    )
    return AnswerRow(
        row.name,
        lines.entry_url(answer.policy or "", row.entry, row.name),
        bar if balance.state is not State.NO_DATA else None,
        shares.actual,
        shares.target,
        balance,
        row.since,
    )


def _link(link: Link) -> Choice:
    where: dict[str, Any] = {"policy": link.policy_slug}
    if link.to == "entry" and link.uid is not None:
        title = f"{_('Explain')}: {link.title}"
        return Choice("arrow-right", title, url=lines.entry_url(link.policy_slug, link.uid, link.title))
    if link.to == "revision":
        url = f"{reverse('dashboard:diff', kwargs=where)}?from={max(link.number - 1, 1)}&to={link.number}"
        return Choice("git-commit", _("Revision %(n)s") % {"n": link.number}, link.title, url)
    if link.to == "history":
        title = f"{_('History')}: {link.title}"
        if link.uid is None:
            return Choice("history", title, url=reverse("dashboard:history", kwargs=where))
        return Choice("history", title, url=reverse("dashboard:entry-history", kwargs={**where, "uid": link.uid}))
    return Choice("chart-line", f"{_('Convergence')}: {link.title}", url=_convergence(link))


def _convergence(link: Link) -> str:
    where: dict[str, Any] = {"policy": link.policy_slug}
    if link.uid is None:
        return reverse("dashboard:convergence", kwargs=where)
    named = {**where, "uid": link.uid, "name": lines.name_slug(link.title)}
    return reverse("dashboard:entry-convergence", kwargs=named)


def recent_refs(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(policy, uid) of the last three opened entries, which the browser stores as `policy:uid`; skips invalid ones."""
    for text in list(texts)[:3]:
        slug, colon, uid = text.partition(":")
        if colon and slug and len(uid) == 36:
            yield slug, uid


_YEAR_S = 365 * 86400


def page_url(**_kwargs: Any) -> str:
    return reverse("dashboard:search")


@require_safe
def search(request: HttpRequest) -> HttpResponse:
    """`?q=`: a name or a question; `?in=`: one group only; `?policy=`: the policy to list first."""
    context = {**_results(request), "crumbs": [{"label": _("Search")}]}
    return private(render(request, "dashboard/search/search.html", context))


@require_safe
@fragment(page_url)
def results(request: HttpRequest) -> HttpResponse:
    """Results for the palette; `?last=`: entries opened last in this browser, as `policy:uid`."""
    return private(render(request, "dashboard/search/_results.html", _results(request)))


@login_not_required
@require_POST
def keys(request: HttpRequest) -> HttpResponse:
    """Switch single-key shortcuts on or off in this browser, then redirect back."""
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}, require_https=request.is_secure()):
        back = reverse("dashboard:overview")
    response = SeeOther(back)
    if request.POST.get("keys") == "off":
        secure = bool(settings.SESSION_COOKIE_SECURE)
        response.set_cookie(KEYS_COOKIE, "off", max_age=_YEAR_S, samesite="Lax", httponly=True, secure=secure)
    else:
        response.delete_cookie(KEYS_COOKIE, samesite="Lax")
    return response


def _results(request: HttpRequest) -> dict[str, Any]:
    query = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST]
    only = request.GET.get("in", "") if request.GET.get("in", "") in LISTED_ALONE else ""
    here = SearchContext(request)
    if not query:
        policies = sorted(list_policies(actor=here.actor), key=lambda policy: policy.slug != here.slug)
        groups = empty_groups(_recent(request), examples(policies, actor=here.actor)[:3], here)
        return {"query": "", "groups": groups, "answer": None, "only": "", "n_lines": _count(groups)}
    kind: GroupKind | None = only or None  # type: ignore[assignment]  # one of LISTED_ALONE
    most = MOST_LISTED if only else MOST_EACH
    found = search_everything(query=query, actor=here.actor, policy_slug=here.slug, only=kind, most=most)
    if found.answer is not None:
        groups = answer_groups(found.answer)
        rows = _answer_rows(request, found.answer) if found.answer.rows else []
        return {"query": query, "groups": groups, "answer": found.answer, "rows": rows, "n_lines": _count(groups)}
    groups = groups_of(found, here, only=only)
    return {"query": query, "groups": groups, "answer": None, "only": only, "n_lines": _count(groups)}


def _answer_rows(request: HttpRequest, answer: Any) -> list[AnswerRow]:
    view = open_view(policy_slug=answer.policy, actor=actor_of(request))
    return answer_rows(answer, lines.tolerance_of(view.settings))


def _recent(request: HttpRequest) -> list[EntryHit]:
    """Entries opened last in this browser that still exist and that the actor may see."""
    found = []
    for slug, uid in recent_refs(request.GET.getlist("last")):
        try:
            hit = find_by_uid(open_view(policy_slug=slug, actor=actor_of(request)), UUID(uid))
        except (DomainError, ValueError):
            continue
        if hit is not None:
            found.append(hit)
    return found


def _count(groups: list[ResultGroup]) -> int:
    return sum(len(group.items) for group in groups)
