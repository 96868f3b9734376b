"""Peers as rows and texts: their state, their age, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from apps.core.sizes import in_shown_unit
from apps.federation.conditions import NEEDS_ATTENTION, Condition
from apps.federation.grid.peers import Direction, Peer
from apps.federation.models import Remote
from apps.mapping.moves import DAYS, UnmappedUsage
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.revision_diff import compare_targets
from apps.priorities.sentences import numbers
from apps.web.shell import lines, presentation
from apps.web.shell.presentation import KeyedText, StatusBadge, joined
from apps.web.svg.age_meter import AgeMeter, draw_age_meter
from apps.web.texts.conditions import STANDINGS, meanwhile

_TICK = 46.0  # position of the tick at the allowed age
_SHOWN = 3


_BEHIND = StatusBadge("", "history", gettext_lazy("behind"), "behind")
DIRECTIONS: dict[Direction, tuple[str, Any]] = {
    Direction.MOUNT: ("arrow-down", gettext_lazy("Mounted")),
    Direction.USAGE: ("arrow-down", gettext_lazy("Usage received")),
    Direction.READS: ("arrow-up", gettext_lazy("Reads ours")),
}
_MOST_EXCERPT = 14


@dataclass(frozen=True, slots=True)
class PeerLine:
    """One row of the table of peers."""

    peer: Peer
    url: str
    entry_url: str
    name: str
    standing: StatusBadge
    icon: str
    direction: str
    age: str
    meter: AgeMeter | None
    took: str
    version: str
    version_note: str
    key: str
    effect: str


def peer_line(peer: Peer) -> PeerLine:
    icon, direction = DIRECTIONS[peer.direction]
    standing = STANDINGS[peer.condition]
    if peer.direction is Direction.READS and peer.condition is Condition.LATE:
        standing = _BEHIND
    entry = peer.path.rpartition("/")[2]
    return PeerLine(
        peer=peer,
        url=_url_of(peer),
        entry_url=lines.entry_url(peer.policy, peer.entry, entry) if peer.path else "",
        name=peer.name or _("anyone"),
        standing=standing,
        icon=icon,
        direction=str(direction),
        age=age_of_allowed(peer.age_s, peer.allowed_s),
        meter=meter(peer.age_s, peer.allowed_s),
        took="" if peer.duration_s is None else _("last fetch took %(time)s") % {"time": took(peer.duration_s)},
        version=numbers.count(peer.active_version) if peer.active_version else numbers.UNKNOWN,
        version_note=_version_note(peer),
        key=short_key(peer.fingerprint),
        effect=numbers.percent(peer.effect),
    )


def short_key(fingerprint: str) -> str:
    """The first two groups of a fingerprint, which distinguish keys in a table but do not suffice to compare them."""
    return f"{fingerprint[:4]} {fingerprint[4:8]}" if fingerprint else ""


def age_of_allowed(age_s: float | None, allowed_s: float) -> str:
    """Age and allowed age, such as “6 min of 6 h”."""
    if age_s is None:
        return _("not yet")
    allowed = allowed_text(allowed_s)
    return _("%(age)s of %(allowed)s") % {"age": presentation.age(age_s), "allowed": allowed}


def allowed_text(seconds: float) -> str:
    """An allowed age in the units of ages: 24 h rather than 1 d, since an age of 25 h is shown beside it."""
    if 86_400 <= seconds < 2 * 86_400 and seconds % 3600 == 0:
        return presentation.age(seconds)
    return presentation.duration(seconds)


def took(seconds: float) -> str:
    """Duration of a fetch, such as 84 ms or 1.2 s."""
    if seconds < 1:
        return f"{numbers.count(seconds * 1000)}{numbers.NBSP}ms"
    return f"{numbers.number(seconds, 1)}{numbers.NBSP}s"


def size(n_bytes: int) -> str:
    """A size such as 212 kB, with one decimal from a megabyte on."""
    value, unit = in_shown_unit(n_bytes)
    return f"{numbers.number(value, 0 if unit in ('B', 'kB') else 1)}{numbers.NBSP}{unit}"


def meter(age_s: float | None, allowed_s: float) -> AgeMeter | None:
    if age_s is None:
        return None
    return draw_age_meter(age_s / max(allowed_s, 1.0), tick=_TICK)


def headline(peers: Sequence[Peer]) -> KeyedText:
    """Headline on the peers that we mount or receive usage from; those that only read our data don't count."""
    fetched = [peer for peer in peers if peer.direction is not Direction.READS]
    n = sum(peer.condition in NEEDS_ATTENTION for peer in fetched)
    if n:
        text = ngettext(
            "%(n)s of %(all)s connections needs attention", "%(n)s of %(all)s connections need attention", n
        )
        return KeyedText("needs_a_look", text % {"n": n, "all": len(fetched)})
    if fetched:
        return KeyedText("in_order", _("All peers are up to date"))
    if peers:
        return KeyedText("only_read", _("Peers read our data; we read none of theirs"))
    return KeyedText("no_peers", _("No peers yet"))


def counted(peers: Sequence[Peer]) -> str:
    """Numbers of rows by direction, such as “2 mounted policies, 1 usage feed, 3 readers.”"""
    n = {each: sum(peer.direction is each for peer in peers) for each in Direction}
    texts = {
        Direction.MOUNT: ngettext("%(n)s mounted policy", "%(n)s mounted policies", n[Direction.MOUNT]),
        Direction.USAGE: ngettext("%(n)s usage feed", "%(n)s usage feeds", n[Direction.USAGE]),
        Direction.READS: ngettext("%(n)s reader", "%(n)s readers", n[Direction.READS]),
    }
    return ", ".join(text % {"n": numbers.count(n[each])} for each, text in texts.items()) + "."


def alarms(peers: Sequence[Peer]) -> list[dict[str, Any]]:
    """The first peers that need attention, each with a sentence, the consequence, and a link."""
    items = []
    for peer in peers:
        if peer.direction is not Direction.READS and peer.condition in NEEDS_ATTENTION:
            items.append(
                {"key": peer.condition, "title": _title(peer), "text": consequence(peer), "url": _url_of(peer)}
            )
    return items[:_SHOWN]


def _title(peer: Peer) -> str:
    name = {"name": peer.name, "what": peer.what}
    return {
        Condition.BLOCKED: _("%(name)s is blocked.") % name,
        Condition.EXPIRED: _("%(what)s of %(name)s has expired.") % name,
        Condition.STALE: _("%(name)s is stale.") % name,
        Condition.HELD: _("%(what)s of %(name)s waits for a decision.") % name,
    }[peer.condition]


def consequence(peer: Peer) -> KeyedText:
    """Consequence of a peer's condition for the policy, and the stale action in effect."""
    if peer.condition is Condition.BLOCKED:
        text = _("Its key changed or its history was forked: it isn’t fetched until an administrator decides.")
        return KeyedText("blocked", text)
    if peer.condition is Condition.HELD:
        if peer.direction is Direction.MOUNT:
            return KeyedText("held.mount", _("A newer version exceeds the limits."))
        return KeyedText(
            "held.usage", _("It reports more usage than the approved capacity: the excess doesn’t count yet.")
        )
    age = presentation.age(peer.age_s) if peer.age_s is not None else _("never")
    allowed = allowed_text(peer.allowed_s)
    if peer.condition is Condition.EXPIRED:
        text = _("No newer document was published; the last successful fetch was %(age)s ago.") % {"age": age}
    else:
        text = _("The last successful fetch was %(age)s ago; the limit is %(allowed)s.") % {
            "age": age,
            "allowed": allowed,
        }
    is_old = peer.age_s is None or peer.age_s >= peer.allowed_s  # an expired document may be recently fetched
    acts = meanwhile(peer.stale_action if is_old else Remote.StaleAction.KEEP.value)
    return joined([KeyedText(peer.condition, text), acts])


def late_text(remote: Remote, then: KeyedText) -> KeyedText:
    """Why a peer is late, and what happens beyond the maximum age. then: text of its stale action."""
    n = remote.n_failed
    failed = ngettext("The last fetch failed.", "The last %(n)s fetches failed.", n) % {"n": numbers.count(n)}
    why = (
        KeyedText("late.failed", failed)
        if n
        else KeyedText("late.unasked", _("It wasn’t fetched at the set interval."))
    )
    after = _("After %(allowed)s without a successful fetch:") % {"allowed": allowed_text(remote.max_age_s)}
    return joined([why, KeyedText("late.then", after), then])


def _version_note(peer: Peer) -> str:
    if not peer.active_version and not peer.theirs:
        return ""
    if peer.direction is Direction.USAGE or peer.theirs == peer.active_version:
        return ""
    return _("Newest: %(n)s") % {"n": numbers.count(peer.theirs)}


def _url_of(peer: Peer) -> str:
    """URL of the peer's page; empty for peers without one."""
    name = {Direction.MOUNT: "federation-mount", Direction.USAGE: "federation-subscription"}.get(peer.direction)
    if name is None:
        return ""
    try:
        return reverse(f"pages:{name}", args=[peer.id])
    except NoReverseMatch:
        return ""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One entry in the preview of a document."""

    name: str
    kind: str
    guides: int
    shares: str
    inside: str
    n_below: int


def excerpt(tree: TreeColumns) -> list[Excerpt]:
    """The first entries of a document in tree order; each has the number of its children."""
    targets = compare_targets(tree, tree).new
    shown: list[Excerpt] = []
    waiting = [0]
    while waiting and len(shown) < _MOST_EXCERPT:
        i = waiting.pop()
        children = list(tree.children(i))
        level = len(tree.ancestors(i))
        waiting.extend(reversed(children))
        inside = None if i == 0 or np.isnan(targets[i]) else float(targets[i])
        shown.append(
            Excerpt(
                name=tree.name[i],
                kind=tree.kind[i],
                guides=level,
                n_below=len(children),
                shares="" if i == 0 else presentation.shares(None if tree.inherit[i] else float(tree.shares[i])),
                inside="" if i == 0 else numbers.percent(inside),
            )
        )
    return shown


def unmapped_text(unmapped: UnmappedUsage) -> str:
    """Warning about usage that would become unmapped by mounting."""
    text = _("Their usage, %(n)s core-hours of the last %(days)s days, would count nowhere.")
    return text % {"n": presentation.hours(unmapped.core_s), "days": DAYS}
