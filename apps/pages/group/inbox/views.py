"""The inbox: requests and reviews that wait for the actor, and the endpoint to answer a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from apps.accounts.actor import Actor
from apps.accounts.selectors import display_name
from apps.core import clock
from apps.core.errors import Conflict, DomainError, FieldProblem, Invalid, NotFound, Stale, status_of
from apps.pages.group.inbox.forms import AnswerForm
from apps.pages.group.inbox.items import InboxItem, list_items
from apps.pages.group.inbox.presenters import RequestCard, draw_request, ranks_text, state_label
from apps.policies.access.role_holders import GrantState, name_of
from apps.policies.access.scope import visible_entries
from apps.policies.changesets.lifecycle import comment_on
from apps.policies.models import ChangeSet, Comment, Revision
from apps.policies.operations.whole_trees import is_document
from apps.policies.requests.inbox import EndingGrant, EndingShares, Inbox, get_inbox, last_comments
from apps.policies.requests.share_requests import (
    RequestState,
    decline_request,
    grant_request,
    requested_shares_of,
    state_of_request,
)
from apps.policies.selectors import get_change_set
from apps.policies.services import withdraw_change_set
from apps.policies.tree.stored import load_tree
from apps.priorities.request_evidence import get_request_evidence
from apps.priorities.sentences import numbers
from apps.series.convergence.selectors import list_weeks
from apps.web.changes.change_titles import ChangeTitle, titles_of
from apps.web.links.addresses import group_url, review_url
from apps.web.shell import lines, presentation
from apps.web.shell.forms import read_action
from apps.web.shell.presentation import long_day, short_day
from apps.web.shell.publishing import add_published_message
from apps.web.shell.requests import SeeOther, actor_of, fragment
from apps.web.texts.request_texts import wish_text

SHOWN = 20  # requests shown with their evidence; the others are listed by title


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """One change set in a list. state: review, held, approved, behind, or the state of a request."""

    change_set: ChangeSet
    title: str
    text: str
    url: str
    badge: str
    css: str
    state: str
    at: datetime
    edit_url: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EndLine:
    """A role or an entry's shares that end soon or have ended."""

    key: str
    title: str
    text: str
    url: str
    day: str
    is_over: bool


def show(
    request: HttpRequest,
    *,
    status: int = 200,
    answer: AnswerForm | None = None,
    at_request: int = 0,
    refusal: DomainError | None = None,
) -> HttpResponse:
    context = inbox_context(request)
    shown = any(card.change_set.pk == at_request for card in context["cards"])
    problem = refusal.message if refusal else ""
    context |= {"answer": answer, "at_request": at_request, "refusal": refusal, "problem": problem, "is_at_card": shown}
    return render(request, "pages/group/inbox/inbox.html", context, status=status)


def inbox_context(request: HttpRequest) -> dict[str, Any]:
    actor, at = actor_of(request), clock.now()
    inbox = get_inbox(at=at, actor=actor)
    comments = last_comments([*inbox.sent, *inbox.drafts, *inbox.reviews])
    items = list_items(at=at, actor=actor)
    waiting = [item for item in items if item.waits]
    more_requests = inbox.requests[SHOWN:]
    listed = [*more_requests, *inbox.reviews, *inbox.drafts, *inbox.sent, *inbox.scheduled]
    titles = titles_of(listed, actor=actor, at=at)
    return {
        "inbox": inbox,
        "n_waiting": inbox.n_waiting + len(waiting),
        "items": waiting,
        "sent_items": [item for item in items if not item.waits],
        "title": _title(inbox, len(waiting)),
        "subtitle": _subtitle(inbox, waiting, at),
        "cards": _cards(request, inbox.requests[:SHOWN]),
        "more_requests": [_waiting(each, titles[each.pk]) for each in more_requests],
        "reviews": [_waiting(each, titles[each.pk]) for each in inbox.reviews],
        "drafts": [_draft(each, titles[each.pk], comments.get(each.pk)) for each in inbox.drafts],
        "sent": [_sent(each, titles[each.pk], comments.get(each.pk), actor, at) for each in inbox.sent],
        "scheduled": [_scheduled(each, titles[each.pk]) for each in inbox.scheduled],
        "ends": sorted(
            [*map(_grant_end, inbox.grants), *(_shares_end(each, at) for each in inbox.shares)],
            key=lambda line: not line.is_over,
        ),
        "mark": mark_of(inbox, waiting),
        "crumbs": [{"label": _("Inbox")}],
    }


def mark_of(inbox: Inbox, items: Sequence[InboxItem]) -> str:
    """Tag of the waiting items, by which a page finds out that there are new ones."""
    waiting = [*inbox.requests, *inbox.reviews]
    keys = [*(f"{each.pk}.{each.version}" for each in waiting[:100]), *(item.key for item in items[:100])]
    return "-".join(keys) or "none"


def _title(inbox: Inbox, n_items: int) -> str:
    n = inbox.n_waiting + n_items
    if not n:
        return _("No pending decisions")
    text = ngettext("%(n)s pending decision", "%(n)s pending decisions", n)
    return text % {"n": numbers.count(n)}


def _subtitle(inbox: Inbox, items: Sequence[InboxItem], at: datetime) -> str:
    if not inbox.n_waiting and not items:
        return _("Requests from groups below you and changes that need your approval appear here.")
    oldest = min([*(each.updated_at for each in (*inbox.requests, *inbox.reviews)), *(item.at for item in items)])
    age = presentation.age(presentation.seconds_between(oldest, at))
    counts = []
    if n := len(inbox.requests):
        counts.append(ngettext("%(n)s request for shares", "%(n)s requests for shares", n) % {"n": n})
    if n := len(inbox.reviews):
        counts.append(ngettext("%(n)s change to review", "%(n)s changes to review", n) % {"n": n})
    if n := len(items):
        counts.append(ngettext("%(n)s other request", "%(n)s other requests", n) % {"n": n})
    return _("%(what)s. The oldest has waited %(age)s.") % {"what": ", ".join(counts), "age": age}


def _cards(request: HttpRequest, requests: Sequence[ChangeSet]) -> list[RequestCard]:
    comments: dict[int, list[Comment]] = {}
    for comment in Comment.objects.filter(change_set__in=[each.pk for each in requests]):
        comments.setdefault(comment.change_set_id, []).append(comment)
    cards = []
    for change_set in requests:
        try:
            story = get_request_evidence(change_set, actor=actor_of(request), with_ranks=False)
        except DomainError:  # archived or hidden since the list was made
            continue
        weeks = list_weeks(story, actor=actor_of(request))
        cards.append(draw_request(story, comments.get(change_set.pk, []), weeks))
    return cards


def _edits(change_set: ChangeSet) -> str:
    n = len(change_set.operations)
    return ngettext("%(n)s edit", "%(n)s edits", n) % {"n": n}


def _waiting(change_set: ChangeSet, title: ChangeTitle) -> ChangeLine:
    """A change set of another author that needs a decision, or one that was held at its scheduled time."""
    text = f"{display_name(change_set.author_name)}, {change_set.policy.name}, {_edits(change_set)}"
    badge, css, state = _("waiting"), "warn", "review"
    if change_set.held_for:
        badge, text, state = _("held"), f"{text}. {change_set.held_for}", "held"
    elif change_set.state == ChangeSet.State.APPROVED:
        badge, css, state = _("approved"), "ok", "approved"
    return ChangeLine(
        change_set,
        title.text,
        text,
        review_url(change_set.pk),
        badge,
        css,
        state,
        change_set.updated_at,
        reason=title.reason,
    )


def _draft(change_set: ChangeSet, title: ChangeTitle, comment: Comment | None) -> ChangeLine:
    head, text = change_set.policy.head_number, _edits(change_set)
    behind = head - change_set.base_number
    badge = ngettext("%(n)s revision behind", "%(n)s revisions behind", behind) % {"n": behind} if behind else ""
    if comment is not None and comment.author_name != change_set.author_name:
        text = f"{text}. {display_name(comment.author_name)}: “{comment.text}”"
    is_whole = is_document(change_set)
    url = review_url(change_set.pk) if is_whole else reverse("pages:draft", kwargs={"change_set": change_set.pk})
    text = f"{change_set.policy.name}, {text}"
    return ChangeLine(
        change_set,
        title.text,
        text,
        url,
        badge,
        "warn",
        "behind" if behind else "",
        change_set.updated_at,
        edit_url="" if is_whole else url,
        reason=title.reason,
    )


def _sent(change_set: ChangeSet, title: ChangeTitle, comment: Comment | None, actor: Actor, at: datetime) -> ChangeLine:
    """A request or change set that the actor sent, with its state."""
    is_request = change_set.origin == ChangeSet.Origin.REQUEST
    state = state_of_request(change_set)
    badge = state_label(state) if is_request else _("approved") if change_set.state == "approved" else _("waiting")
    key = str(state) if is_request else "approved" if change_set.state == "approved" else str(RequestState.OPEN)
    css = {
        RequestState.GRANTED: "ok",
        RequestState.GRANTED_OTHER: "ok",
        RequestState.DECLINED: "bad",
        RequestState.OPEN: "warn",
    }.get(state, "")
    text = change_set.policy.name
    if change_set.held_for:
        badge, text, key = _("held"), f"{text}. {change_set.held_for}", "held"
    elif comment is not None:
        text = f"{text}. {display_name(comment.author_name)}: “{comment.text}”"
    url = review_url(change_set.pk)
    if is_request and change_set.asks_entry_uid is not None:
        url = reverse("pages:group", kwargs={"policy": change_set.policy.slug, "uid": change_set.asks_entry_uid})
    if is_request:
        title = ChangeTitle(_asked_title(change_set, actor, at))
    return ChangeLine(change_set, title.text, text, url, badge, css, key, change_set.updated_at, reason=title.reason)


def _asked_title(change_set: ChangeSet, actor: Actor, at: datetime) -> str:
    """Title of a request, with the entry's current name if the actor still sees it."""
    tree = load_tree(change_set.policy)
    i = tree.index_of_uid(change_set.asks_entry_uid) if change_set.asks_entry_uid else None
    sees = visible_entries(policy=change_set.policy, tree=tree, actor=actor, at=at)
    name = tree.name[i] if i is not None and sees.may_see(i) else _("an entry outside your view")
    return _("%(name)s requests %(wish)s") % {"name": name, "wish": wish_text(requested_shares_of(change_set))}


def _scheduled(change_set: ChangeSet, title: ChangeTitle) -> ChangeLine:
    at = change_set.effective_at or change_set.updated_at
    text = f"{display_name(change_set.author_name)}, {change_set.policy.name}, {_edits(change_set)}"
    url = review_url(change_set.pk)
    return ChangeLine(change_set, title.text, text, url, "", "", "", at, reason=title.reason)


def _grant_end(ending: EndingGrant) -> EndLine:
    grant, line = ending.line.grant, ending.line
    is_over = line.state == GrantState.EXPIRED
    who = _("you") if line.is_own else name_of(grant)
    text = f"{grant.get_role_display()}, {line.entry_name}, {ending.policy.name}"
    ends = grant.expires_at.date() if grant.expires_at else None
    title = _("Role expired: %(who)s") if is_over else _("Role expires: %(who)s")
    url = _access_url(ending.policy.slug)
    return EndLine(
        "role_ended" if is_over else "role", title % {"who": who}, text, url, short_day(ends) if ends else "", is_over
    )


def _access_url(slug: str) -> str:
    for name in ("access", "grants"):
        try:
            return reverse(f"pages:{name}", kwargs={"policy": slug})
        except NoReverseMatch:
            continue
    return ""


def _shares_end(ending: EndingShares, at: datetime) -> EndLine:
    dates = ending.dates
    is_over = dates.ends_on is not None and dates.ends_on < timezone.localdate(at)
    words = {"keep": _("keeps its shares until they are changed"), "archive": _("archived")}
    if isinstance(dates.at_end, str) and dates.at_end != "zero":
        then = words.get(dates.at_end, "")
    else:
        then = _("shares %(now)s to %(then)s") % {
            "now": presentation.shares(ending.shares),
            "then": presentation.shares(0.0 if isinstance(dates.at_end, str) else dates.at_end),
        }
    day = long_day(dates.ends_on) if dates.ends_on else ""
    text = f"{ending.policy.name} {ending.path}: {then}"
    title = _("%(name)s: until %(day)s") % {"name": ending.name, "day": day}
    url = lines.entry_url(ending.policy.slug, ending.uid, ending.name)
    return EndLine("shares", title, text, url, short_day(dates.ends_on) if dates.ends_on else "", is_over)


def page_url(**_kwargs: Any) -> str:
    return reverse("pages:inbox")


@require_safe
def inbox(request: HttpRequest) -> HttpResponse:
    return show(request)


@require_safe
@fragment(page_url)
def news(request: HttpRequest) -> HttpResponse:
    """Fragment that reports new items since the page was loaded; it does not move the rows of the page."""
    at, actor = clock.now(), actor_of(request)
    own_inbox, items = get_inbox(at=at, actor=actor), [item for item in list_items(at=at, actor=actor) if item.waits]
    seen = request.GET.get("seen", "")
    context = {"mark": seen, "is_new": mark_of(own_inbox, items) != seen, "n": own_inbox.n_waiting + len(items)}
    return render(request, "pages/group/inbox/_news.html", context)


@require_safe
@fragment(page_url)
def ranks(request: HttpRequest, change_set: int) -> HttpResponse:
    """Fragment with the rank changes that a request would cause; loaded after the page because it is slow."""
    share_request = _request(request, change_set)
    story = get_request_evidence(share_request, actor=actor_of(request))
    key, words = ("problem", story.problem) if story.problem else ranks_text(story)
    context = {"request_id": share_request.pk, "key": key, "words": words, "story": story}
    return render(request, "pages/group/inbox/_ranks.html", context)


@require_POST
def answer(request: HttpRequest, change_set: int) -> HttpResponse:
    """Answer a request: grant it, grant another amount, comment, decline or withdraw it."""
    share_request = _request(request, change_set)
    is_own = share_request.author_id == request.user.pk
    back = (
        group_url(share_request.policy.slug, share_request.asks_entry_uid) + "#ask"
        if is_own
        else reverse("pages:inbox")
    )
    form = AnswerForm(request.POST)
    try:
        if not form.is_valid():
            where = next(iter(form.errors))
            raise _wrong(where, str(form.errors[where][0]))
        outcome = _answer(request, share_request, form)
    except (Invalid, Conflict, Stale) as error:
        if is_own:
            messages.warning(request, error.message)
            return SeeOther(back)
        status = status_of(error)
        return show(request, status=status, answer=form, at_request=share_request.pk, refusal=error)
    if isinstance(outcome, Revision):
        add_published_message(request, outcome)
    else:
        messages.success(request, outcome)
    return SeeOther(back)


def _answer(request: HttpRequest, change_set: ChangeSet, form: AnswerForm) -> Revision | str:
    """Carry out the answer; return the revision that it published, or the message that confirms it."""
    cleaned, step, at, actor = form.cleaned_data, read_action(request).step, clock.now(), actor_of(request)
    text, version = cleaned["text"], cleaned["version"]
    if step == "grant":
        return grant_request(id=change_set.pk, version=version, at=at, actor=actor)
    if step == "grant-other":
        if cleaned["shares"] is None:
            raise _wrong("shares", _("Enter a number (20 or 0.5) or a percentage."))
        return grant_request(
            id=change_set.pk,
            version=version,
            shares=cleaned["shares"],
            until=cleaned["until"],
            text=text,
            at=at,
            actor=actor,
        )
    if step == "decline":
        if not text.strip():
            raise _wrong("text", _("Enter a reason."))
        decline_request(id=change_set.pk, version=version, text=text, at=at, actor=actor)
        return _("Saved")
    if step == "say":
        if not text.strip():
            raise _wrong("text", _("Enter a reason."))
        comment_on(id=change_set.pk, text=text, at=at, actor=actor)
        return _("Saved")
    if step == "withdraw":
        withdraw_change_set(id=change_set.pk, version=version, at=at, actor=actor)
        return _("Withdrawn; nothing was changed.")
    raise _wrong("step", _("Choose an action."))


def _wrong(where: str, message: str) -> Invalid:
    return Invalid(message, fields=[FieldProblem(where, message)])


def _request(request: HttpRequest, id: int) -> ChangeSet:
    change_set = get_change_set(id=id, actor=actor_of(request), at=clock.now())
    if change_set.origin != ChangeSet.Origin.REQUEST:
        raise NotFound(f"There is no change set {id}.")
    return change_set
