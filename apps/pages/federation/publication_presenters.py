"""Rows of the page of publications: publications, usage feeds, their readers, and the site's keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.federation.models import Publication, PublishedDocument, Reading, SiteKey, UsageFeed
from apps.federation.readings import list_readings
from apps.policies.tree.stored import load_tree
from apps.priorities.sentences import numbers
from apps.web.shell import lines, presentation
from apps.web.shell.presentation import KeyedText

_GROUP = 4


@dataclass(frozen=True, slots=True)
class Reader:
    """A peer that fetched a document: the version that it has, and when it fetched it."""

    name: str
    version_text: str
    is_behind: bool
    age: str
    at: datetime
    version: int


@dataclass(frozen=True, slots=True)
class PublishedLine:
    """A publication or a feed.

    path: empty if its entry is no longer in the tree. newest: version or number, 0 before the first document.
    """

    name: str
    policy: str
    path: str
    entry_url: str
    url: str
    address: str
    token_url: str
    is_open: bool
    newest: int
    facts: tuple[str, ...]
    issued_at: datetime | None
    readers: tuple[Reader, ...]


@dataclass(frozen=True, slots=True)
class KeyLine:
    number: int
    groups: tuple[str, ...]
    made_at: datetime
    is_present: bool


def groups_of(fingerprint: str) -> tuple[str, ...]:
    """The sixteen groups of four characters of a fingerprint, as they are read out and compared."""
    return tuple(fingerprint[at : at + _GROUP] for at in range(0, len(fingerprint), _GROUP))


def key_lines(keys: Sequence[SiteKey]) -> list[KeyLine]:
    """Keys of this site, the current one first."""
    last = keys[-1].number if keys else 0
    return [KeyLine(key.number, groups_of(key.fingerprint), key.made_at, key.number == last) for key in reversed(keys)]


def publication_line(row: Publication, now: datetime) -> PublishedLine:
    last = PublishedDocument.objects.filter(publication=row).defer("data").order_by("-version").first()
    facts: tuple[str, ...] = ()
    if last is not None:
        n = ngettext("%(n)s entry", "%(n)s entries", last.n_entries) % {"n": numbers.count(last.n_entries)}
        facts = (n, _("Valid until %(time)s") % {"time": presentation.clock_time(last.expires_at, now)})
    return _line(
        row,
        now,
        newest=last.version if last else 0,
        issued_at=last.issued_at if last else None,
        facts=facts,
        url=reverse("pages:federation-publication", args=[row.name]),
        address=f"/api/v1/publications/{row.name}",
    )


def feed_line(row: UsageFeed, now: datetime) -> PublishedLine:
    cores = presentation.cores_text(row.capacity_cores)
    running = _("with running jobs") if row.sends_running else _("without running jobs")
    return _line(
        row,
        now,
        newest=row.number,
        issued_at=None,
        facts=(cores, running),
        url=reverse("pages:federation-feed", args=[row.name]),
        address=f"/api/v1/feeds/{row.name}",
    )


def headline(publications: Sequence[PublishedLine], feeds: Sequence[PublishedLine]) -> KeyedText:
    if not publications and not feeds:
        return KeyedText("nothing", _("Nothing published yet"))
    subtrees = ngettext("%(n)s subtree", "%(n)s subtrees", len(publications)) % {"n": len(publications)}
    of_usage = ngettext("%(n)s usage feed", "%(n)s usage feeds", len(feeds)) % {"n": len(feeds)}
    if not feeds:
        return KeyedText("publications", _("Published: %(names)s") % {"names": subtrees})
    if not publications:
        return KeyedText("feeds", _("Published: %(names)s") % {"names": of_usage})
    both = _("Published: %(subtrees)s and %(feeds)s")
    return KeyedText("both", both % {"subtrees": subtrees, "feeds": of_usage})


def token_url(policy_slug: str, path: str) -> str:
    """URL of the page that creates a token, with scope, policy and entry filled in."""
    query = {"scope": "federation", "policy": policy_slug, "entry": path}
    return f"{reverse('pages:tokens')}?{urlencode(query)}#new"


def _line(
    row: Publication | UsageFeed,
    now: datetime,
    *,
    newest: int,
    issued_at: datetime | None,
    facts: tuple[str, ...],
    url: str,
    address: str,
) -> PublishedLine:
    tree = load_tree(row.policy)
    i = tree.index_of_uid(row.entry_uid)
    path = "" if i is None else tree.path(i)
    entry_url = "" if i is None else lines.entry_url(row.policy.slug, row.entry_uid, tree.name[i])
    readers = tuple(_reader(reading, newest, now) for reading in list_readings(row))
    return PublishedLine(
        name=row.name,
        policy=row.policy.slug,
        path=path,
        entry_url=entry_url,
        url=url,
        address=address,
        token_url=token_url(row.policy.slug, path),
        is_open=row.is_open,
        newest=newest,
        facts=facts,
        issued_at=issued_at,
        readers=readers,
    )


def _reader(reading: Reading, newest: int, now: datetime) -> Reader:
    age = presentation.age(presentation.seconds_between(reading.at, now))
    words = _("Version %(n)s") % {"n": reading.version}
    return Reader(reading.reader or _("anyone"), words, reading.version < newest, age, reading.at, reading.version)
