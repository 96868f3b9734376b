"""Checks that reviewers read before deciding; each passes, warns or blocks, and names a remedy."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.actor import Actor
from apps.accounts.selectors import display_name
from apps.core.errors import Invalid
from apps.core.invisible import visible
from apps.policies.access.scope import Verb
from apps.policies.changesets.change_sets import AccountMoves
from apps.policies.changesets.review import Review
from apps.policies.publishing.size_guard import second_persons
from apps.policies.settings import refuse_unsuitable_tree
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.names import MAX_DEPTH

State = Literal["ok", "warn", "block"]
_SHOWN = 3

# Letters of other scripts, and digits, that most fonts draw like a Latin letter. The comparison folds case first, so
# letters that look alike only as capitals are included.
_LIKE = {
    "a": "аαɑ",
    "b": "вβ",
    "c": "с",
    "d": "ԁ",
    "e": "еε",
    "g": "ɡց",
    "h": "һнհ",
    "i": "іιı",
    "j": "јϳ",
    "k": "кκ",
    "l": "ӏ1|",
    "m": "м",
    "n": "ոռ",
    "o": "оοօ0",
    "p": "рρ",
    "q": "ԛզ",
    "s": "ѕ",
    "t": "тτ",
    "u": "υս",
    "v": "ѵν",
    "w": "ԝω",
    "x": "хχ",
    "y": "уγ",
}
_LIKE_LATIN = {ord(other): latin for latin, others in _LIKE.items() for other in others}


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check. `code` is stable; the texts may change."""

    code: str
    state: State
    title: str
    text: str = ""
    remedy: Annotated[str, "What to do where it doesn't pass"] = ""


def list_checks(review: Review, *, sees: Mask, actor: Actor) -> list[Check]:
    """Run all checks, in reading order. sees: mask of the changed tree's entries that the actor may see."""
    if review.outcome is None:
        if review.change_set.operations or not review.is_open:
            return [_unfit(review)]
        empty = _("This change set is empty")
        return [Check("edits", "block", empty, remedy=_("Edit the draft, or discard it."))]
    checks = [_shape(review), _base(review), _algorithm(review, sees), _sums(review, sees), _locks(review, actor, sees)]
    checks += _confusable_names(review, sees)
    if review.is_open:
        checks += [_delegation(review), _accounts(review, actor), _size(review, actor, sees)]
    return checks


def _unfit(review: Review) -> Check:
    if not review.change_set.base_number:
        return Check("shape", "ok", _("It created the policy"))
    title = _("Its edits can’t be applied to revision %(n)s") % {"n": review.number}
    return Check("shape", "block", title, "", _("Edit the draft, or discard it."))


def _shape(review: Review) -> Check:
    """Report the depth; names, shares and parents are valid, because they were checked to compute the outcome."""
    depth = int(review.after.level.max())
    text = _("Depth %(depth)s of %(most)s.") % {"depth": depth, "most": MAX_DEPTH}
    return Check("shape", "ok", _("Shares and names valid, no cycles"), text)


def _base(review: Review) -> Check:
    base, head = review.change_set.base_number, review.policy.head_number
    if review.problem:
        return Check("base", "block", _("The policy has changed"), review.problem, _("Import the file again."))
    if review.conflicts:
        n = len(review.conflicts)
        title = ngettext("%(n)s conflict with revision %(head)s", "%(n)s conflicts with revision %(head)s", n)
        remedy = _("Choose a value for each.")
        return Check("base", "block", title % {"n": n, "head": head}, remedy=remedy)
    if review.is_open and base != head:
        text = _("Based on revision %(base)s; later changes to other fields are kept.") % {"base": base}
        return Check("base", "ok", _("No conflict with revision %(head)s") % {"head": head}, text)
    return Check("base", "ok", _("No conflict with revision %(head)s") % {"head": base if not review.is_open else head})


def _algorithm(review: Review, sees: Mask) -> Check:
    try:
        refuse_unsuitable_tree(review.after, review.wanted.algorithm)
    except Invalid as error:
        first = int(np.argmax(review.after.inherit))
        text = error.message if error.code != "no_inherit" or sees[first] else _("An entry outside your view inherits.")
        remedy = _("Give inheriting entries their own shares, or choose another algorithm.")
        if error.code == "package_failed":
            remedy = _("Repair or update the package, or choose another algorithm.")
        return Check("algorithm", "block", _("The algorithm doesn’t support this tree"), text, remedy)
    return Check("algorithm", "ok", _("The algorithm supports this tree"))


def _sums(review: Review, sees: Mask) -> Check:
    """Warn of groups whose shares all become zero, and of entries whose shares become zero."""
    before, after = review.before, review.after
    empty = _new(_zero_groups(after), _zero_groups(before), review)
    zero = _new(_zero_entries(after), _zero_entries(before), review)
    zero = [i for i in zero if int(after.parent[i]) not in set(empty)]
    if not empty and not zero:
        return Check("sums", "ok", _("All groups have shares"))
    texts = []
    if empty:
        text = _("All shares below %(names)s are 0: no entry below has a target.")
        texts.append(text % {"names": _names(after, empty, sees)})
    if zero:
        texts.append(_("The target of %(names)s is 0.") % {"names": _names(after, zero, sees)})
    return Check(
        "sums", "warn", _("An entry has a target of 0"), " ".join(texts), _("Give at least one of them shares.")
    )


def _zero_groups(tree: TreeColumns) -> Mask:
    total = np.bincount(tree.parent[1:], weights=tree.shares[1:], minlength=len(tree))
    inherits = np.bincount(tree.parent[1:], weights=tree.inherit[1:], minlength=len(tree))
    return np.asarray((tree.n_children > 0) & (total == 0) & (inherits == 0), dtype=np.bool_)


def _zero_entries(tree: TreeColumns) -> Mask:
    zero: Mask = (tree.shares == 0) & ~tree.inherit
    zero[0] = False
    return zero


def _new(after: Mask, before: Mask, review: Review) -> list[int]:
    place = review.moves.place
    was = (place >= 0) & before[place]
    return [int(i) for i in np.flatnonzero(after & ~was)]


def _confusable_names(review: Review, sees: Mask) -> list[Check]:
    """Warn of new and renamed entries whose name looks like a sibling's."""
    after, moves = review.after, review.moves
    named = np.flatnonzero(sees & (moves.is_new | moves.came | _is_renamed(review)))
    pairs = [(i, other) for i, other in find_confusable_names(after, named.tolist()) if sees[other]]
    if not pairs:
        return []
    text = _("%(name)s looks like %(other)s.")
    shown = [text % {"name": after.path(i), "other": after.path(other)} for i, other in pairs[:_SHOWN]]
    remedy = _("Check that this is intended.")
    return [Check("names", "warn", _("Names look alike"), " ".join(shown), remedy)]


def _is_renamed(review: Review) -> Mask:
    """Mask of entries that had another name before; of new ones nothing is said."""
    was = review.before.names.take(np.maximum(review.moves.place, 0))
    return review.after.names.differ(was)


def _locks(review: Review, actor: Actor, sees: Mask) -> Check:
    locked = [] if review.outcome is None else list(_locked(review))
    if not locked:
        return Check("locks", "ok", _("No locked entry is changed"))
    names = _names(review.after, locked, sees)
    refusal = review.why_not_publish(actor) if review.is_open else None
    text = f"{names}."
    if refusal is not None and refusal.code == "locked":
        remedy = _("The person who locked it, or an administrator, can publish this.")
        return Check("locks", "block", _("A locked entry is changed"), text, remedy)
    return Check("locks", "warn", _("A locked entry is changed"), text, _("Check that this is intended."))


def _locked(review: Review) -> Iterator[int]:
    assert review.outcome is not None, "asked before"  # noqa: S101 - an invariant, not input
    for uid, (before, after) in review.outcome.changes.items():
        if before is not None and before.locked and after is not None:
            i = review.after.index_of_uid(uid)
            if i is not None:
                yield i


def _delegation(review: Review) -> Check:
    """Warn if the author could not publish it, and name users who could."""
    author = review.change_set.author
    refusal = None if author is None else review.why_not_publish(Actor(user=author, via="worker"))
    if refusal is None:
        return Check("delegation", "ok", _("Within the author’s rights"))
    people = review.people_who_may(Verb.PUBLISH)
    text = _("%(author)s may request this, but not publish it.") % {
        "author": display_name(review.change_set.author_name)
    }
    remedy = _("A manager above must publish it.")
    if people:
        remedy = _("Can be published by: %(names)s.") % {"names": _people(people)}
    return Check("delegation", "warn", _("Beyond the author’s rights"), text, remedy)


def _accounts(review: Review, actor: Actor) -> Check:
    """Check whether publishing by this actor would move accounts of entries outside their rights."""
    moves = review.account_moves(actor)
    if moves.refusal:
        people = review.people_who_may(Verb.PUBLISH)
        remedy = _("It must be published by a person who maps accounts at both entries.")
        if people:
            remedy = _("Can be published by: %(names)s.") % {"names": _people(people)}
        return Check("accounts", "block", _("It moves accounts outside your rights"), moves.refusal, remedy)
    if moves.is_limited:
        return _limited(moves)
    if moves.n and not _is_own(review, actor):
        text = ngettext("%(n)s account would move.", "%(n)s accounts would move.", moves.n)
        title = _("Your rights decide which accounts move")
        return Check("accounts", "warn", title, text % {"n": moves.n}, _("Check that this is intended."))
    return Check("accounts", "ok", _("No accounts outside your rights are moved"))


def _limited(moves: AccountMoves) -> Check:
    title = _("New rules take no other accounts")
    text = _("They take free accounts and those that count below already; all others stay where they count.")
    if not moves.n_stay:  # none, or too few to show
        return Check("accounts", "ok", title, text)
    staying = ngettext("%(n)s account matches and stays.", "%(n)s accounts match and stay.", moves.n_stay)
    remedy = _("It must be published by a person who maps accounts at both entries.")
    return Check("accounts", "warn", title, f"{text} {staying % {'n': moves.n_stay}}", remedy)


def _is_own(review: Review, actor: Actor) -> bool:
    return actor.user is not None and actor.user.pk == review.change_set.author_id


def _size(review: Review, actor: Actor, sees: Mask) -> Check:
    size = review.size(actor)
    furthest = (
        _("The largest target change is %(n).1f points.")
        if sees.all()
        else _("The largest target change of the entries in your view is %(n).1f points.")
    )
    furthest %= {"n": size.points}
    if not size.is_guarded:
        return Check("size", "ok", _("No second approval needed"), furthest)
    if not size.reasons:
        return Check("size", "ok", _("No second approval needed"), furthest)
    text = " ".join(size.reasons)
    approvals = second_persons(review.change_set, review.at)
    if approvals:
        who = ", ".join(approval.user_name for approval in approvals[:_SHOWN])
        return Check("size", "ok", _("Large change, approved by %(who)s") % {"who": who}, text)
    people = review.people_who_may(Verb.APPROVE)
    remedy = _("Can be approved by: %(names)s.") % {"names": _people(people)} if people else ""
    return Check("size", "block", _("Large change: a second person must approve it"), text, remedy)


def _people(people: Iterable[object]) -> str:
    names = [str(person) for person in people]
    shown = ", ".join(names[:_SHOWN])
    return f"{shown}, …" if len(names) > _SHOWN else shown


def _names(tree: TreeColumns, entries: list[int], sees: Mask) -> str:
    shown = [tree.path(i) for i in entries if sees[i]]
    more = len(entries) - len(shown[:_SHOWN])
    text = ", ".join(shown[:_SHOWN])
    if not shown:
        return ngettext("an entry outside your view", "%(n)s entries outside your view", more) % {"n": more}
    return _("%(names)s and %(n)s more") % {"names": text, "n": more} if more else text


def confusable_form(name: str) -> str:
    """Return a form that is equal for names that look alike: styled letters, case, other scripts, digits 0 and 1."""
    text = unicodedata.normalize("NFKC", visible(name))
    # In a word with small letters, a capital I looks like a small l.
    if not text.isupper():
        text = text.replace("I", "l")
    return unicodedata.normalize("NFKC", text.casefold()).translate(_LIKE_LATIN)


def find_confusable_names(tree: TreeColumns, entries: Collection[int]) -> list[tuple[int, int]]:
    """Return (entry, sibling) for each of `entries` that looks like a differently named sibling; one sibling each."""
    pairs = []
    wanted = set(entries)
    for parent in sorted({int(tree.parent[i]) for i in wanted if tree.parent[i] >= 0}):
        first: dict[str, int] = {}
        # Existing children first, so that new ones are compared with them.
        children = sorted(tree.children(parent), key=lambda child: child in wanted)
        for child in children:
            same = first.setdefault(confusable_form(tree.name[child]), child)
            if same != child and child in wanted:
                pairs.append((child, same))
    return pairs
