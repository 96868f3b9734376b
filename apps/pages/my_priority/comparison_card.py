"""The card that compares another user: who is next ahead, and what decides between the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.core.errors import Conflict, Invalid, NotFound, Unavailable
from apps.explain.contrasts import Comparison, LeafHit, compare_leaves, find_leaves
from apps.explain.my_priority import MyPriority
from apps.explain.path import WalkStep
from apps.pages.my_priority.account_choice import account_of_card, address_of
from apps.pages.my_priority.cards import answer_card
from apps.priorities.sentences import text_of
from apps.web.shell import lines, time_travel
from apps.web.shell.presentation import Balance
from apps.web.shell.requests import actor_of
from apps.web.svg import bars
from apps.web.svg.bars import Bullet
from apps.web.texts.account_explanation import WIDTH, balance_of, tolerance_of

_LONGEST_WHO = 200


@dataclass(frozen=True)
class Contrasted:
    """One of the two compared entries on the deciding level."""

    name: str
    sentence: str
    bar: Bullet | None
    label: str
    balance: Balance | None


@require_safe
def why(request: HttpRequest) -> HttpResponse:
    """`?who=` searches, `?other=` chooses."""
    at = time_travel.read_moment_param(request)
    account, _known = account_of_card(request, at)
    context = {"why": None} if account is None else _comparison(request, account, at)
    return answer_card(request, "pages/my_priority/_why.html", context, title=_("Compare"))


def _comparison(request: HttpRequest, account: MyPriority, at: int | datetime | None) -> dict[str, Any]:
    """Candidates and the comparison; empty if there is no other user."""
    if account.rank is None or account.entry_uid is None:
        return {"why": None}
    query, other = request.GET.get("who", "")[:_LONGEST_WHO], request.GET.get("other", "")
    named: dict[str, Any] = {"policy_slug": account.policy_slug, "actor": actor_of(request), "at": at}
    hits = find_leaves(entry_uid=account.entry_uid, query=query, **named)
    if not hits and not query:
        return {"why": None}
    return {
        "why": {
            "account": account,
            "query": query,
            "other": other,
            "hits": [(hit, _with_other(account, at, hit, query)) for hit in hits],
            **_contrast(account, other, named),
        },
        "at": "" if at is None else time_travel.moment_text(at),
    }


def _with_other(account: MyPriority, at: int | datetime | None, hit: LeafHit, query: str) -> str:
    more = {"other": hit.path, **({"who": query} if query else {})}
    return address_of(account, at, **more).partition("?")[2]


def _contrast(account: MyPriority, other: str, named: dict[str, Any]) -> dict[str, Any]:
    if not other:
        return {"comparison": None}
    try:
        comparison = compare_leaves(leaf=account.entry_path, other=other, **named)
    except (NotFound, Invalid, Conflict, Unavailable) as error:
        return {"comparison": None, "problem": error.message, "problem_code": error.code}
    return {"comparison": comparison, **_contrast_parts(comparison)}


def _contrast_parts(comparison: Comparison) -> dict[str, Any]:
    """Order first, then the deciding level with both entries, then what would reverse the order."""
    order, *rest = comparison.sentences
    turns = [sentence.text for sentence in rest if sentence.key.startswith("turn.")]
    level = text_of(
        [sentence for sentence in rest if sentence.key.split(".")[1] != "one" and not sentence.key.startswith("turn.")]
    )
    steps = [step for step in (comparison.ahead_step, comparison.behind_step) if step is not None]
    standing = [sentence.text for sentence in rest if sentence.key.startswith("contrast.one.")]
    drawn = [_drawn(step, text, steps) for step, text in zip(steps, standing, strict=True)] if standing else []
    return {"order": order.text, "level": level, "sides": drawn, "turns": turns}


def _drawn(step: WalkStep, sentence: str, steps: Sequence[WalkStep]) -> Contrasted:
    if step.target is None:
        return Contrasted(step.name, sentence, None, "", None)
    known = None if step.state == "unknown" else step.actual
    scale = bars.share_scale([(each.actual or 0.0, each.target or 0.0) for each in steps])
    balance = balance_of(step, known)
    tolerance = tolerance_of(step)
    bar = bars.draw(
        actual=known, target=step.target, maximum=scale, state=balance.state, width=WIDTH, tolerance=tolerance
    )
    return Contrasted(step.name, sentence, bar, lines.bar_label(known, step.target, tolerance), balance)
