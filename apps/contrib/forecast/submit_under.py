"""The card "Submit under" of *My priority*: accounts of the reader compared for a job of some size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.accounts.actor import Actor
from apps.contrib.forecast.after_job import DEFAULT_CORE_H, RankRange, ranks_after_job, read_core_hours
from apps.core import clock
from apps.core.errors import Invalid, NotFound, TooOften, Unavailable
from apps.explain.job_starts import load_new_job_start
from apps.explain.my_priority import MyPriority
from apps.explain.verdict import runs_where
from apps.pages.my_priority.account_choice import account_of_card, address_of
from apps.pages.my_priority.cards import answer_card
from apps.priorities.sentences.numbers import as_typed
from apps.web.shell.requests import actor_of

_MOST_SHOWN_ALTERNATIVES = 8
_LONGEST_CORE_H = 40


@dataclass(frozen=True)
class SubmitRow:
    """One account. place: its entry and those above. after: its rank after the job; None if unknown."""

    priority: MyPriority
    url: str
    place: str
    is_shown: bool
    is_first: bool
    after: RankRange | None


@dataclass(frozen=True)
class SubmitCard:
    """core_h: as typed; problem: why it is invalid. option: of Slurm's sbatch, for the first account.

    starts: when such a job starts, in sentences.
    """

    policy: str
    entry: str
    account: str
    namespace: str
    rows: Sequence[SubmitRow]
    core_h: str
    problem: str = ""
    option: str = ""
    starts: Sequence[str] = ()


def is_comparable(priority: MyPriority, other: MyPriority) -> bool:
    """Whether a job of the one account could run under the other, and with which rank is known."""
    return runs_where(priority, other) and other.rank is not None


def submit_card(request: HttpRequest, priority: MyPriority, known: Sequence[MyPriority]) -> SubmitCard | None:
    """Comparison of the user's accounts for a job; None where none of them has a rank.

    known: all accounts in its policy, best first.
    """
    able = [other for other in known if is_comparable(priority, other)][:_MOST_SHOWN_ALTERNATIVES]
    if not able:
        return None
    typed = request.GET.get("job_core_h", "").strip()[:_LONGEST_CORE_H] or as_typed(DEFAULT_CORE_H)
    after: dict[UUID, RankRange] = {}
    problem, core_h = "", read_core_hours(typed)
    try:
        uids = [other.entry_uid for other in able if other.entry_uid is not None]
        after = ranks_after_job(
            policy_slug=priority.policy_slug,
            entry_uids=list(dict.fromkeys(uids)),
            core_h=core_h,
            actor=actor_of(request),
            at=clock.now(),
        )
    except Invalid as error:
        problem = error.fields[0].message if error.fields else error.message
    except TooOften as error:
        problem = error.message
    except (NotFound, Unavailable):
        pass  # a newer snapshot has just arrived: show the present ranks only
    rows = [
        SubmitRow(
            priority=other,
            url=address_of(other),
            place=other.entry_path.strip("/").replace("/", " / "),
            is_shown=other is priority,
            is_first=place == 0 and len(able) > 1,
            after=None if other.entry_uid is None else after.get(other.entry_uid),
        )
        for place, other in enumerate(able)
    ]
    return SubmitCard(
        policy=priority.policy_slug,
        entry="" if priority.entry_uid is None else str(priority.entry_uid),
        account=priority.account,
        namespace=priority.namespace,
        rows=rows,
        core_h=typed,
        problem=problem,
        option=f"--account={able[0].group}" if able[0].group else "",
        starts=() if problem else _starts(priority, core_h, actor_of(request)),
    )


def _starts(priority: MyPriority, core_h: float, actor: Actor) -> list[str]:
    start = load_new_job_start(priority, core_h=core_h, actor=actor, at=clock.now())
    return [] if start is None else start.sentences


@require_safe
def submit(request: HttpRequest) -> HttpResponse:
    """The card that compares the user's accounts: `?job_core_h=` is the size of the job."""
    account, known = account_of_card(request, None)
    card = None if account is None else submit_card(request, account, known)
    if card is None:
        raise NotFound("There is no such account in this policy.")
    context = {"submit": card, "metric": card.rows[0].priority.metric}
    status = 422 if card.problem else 200
    return answer_card(request, "contrib/forecast/_submit.html", context, title=_("Submit under"), status=status)
