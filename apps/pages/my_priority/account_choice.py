"""Which of the reader's accounts a page or a card shows, by its query string."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from apps.core.errors import NotFound
from apps.explain.my_priority import MyPriority, get_my_priority
from apps.web.shell import time_travel
from apps.web.shell.requests import actor_of


def names_of(priority: MyPriority) -> dict[str, str]:
    """The parameters that choose an account."""
    return {
        "account": priority.account,
        "namespace": priority.namespace,
        "policy": priority.policy_slug,
        "entry": str(priority.entry_uid),
    }


def page_url(**_kwargs: object) -> str:
    return reverse("dashboard:my-priority")


def address_of(priority: MyPriority, at: int | datetime | None = None, **more: str) -> str:
    """URL of the page for one account."""
    moment = {} if at is None else {"at": time_travel.moment_text(at)}
    return f"{page_url()}?{urlencode({**names_of(priority), **moment, **more})}"


def chosen_of(request: HttpRequest, at: int | datetime | None) -> tuple[MyPriority | None, list[MyPriority]]:
    """The account named in the query string, else the best one; and all accounts."""
    policy = request.GET.get("policy") or None
    accounts = get_my_priority(actor=actor_of(request), at=at, policy_slug=policy if isinstance(at, int) else None)
    known = [account for account in accounts if not account.error]
    return _named(request, known) or next(iter(known), None), accounts


def account_of_card(request: HttpRequest, at: int | datetime | None) -> tuple[MyPriority | None, list[MyPriority]]:
    """The account named in the query string, and the reader's accounts in its policy, best first.

    Without any name it is the best one; None for a reader without accounts.

    Raises:
        NotFound: the reader has no such account. A card never shows another one than the page.
    """
    accounts = get_my_priority(actor=actor_of(request), at=at, policy_slug=request.GET.get("policy") or None)
    known = [account for account in accounts if not account.error]
    account = _named(request, known)
    if account is None and any(name in request.GET for name in ("account", "namespace", "policy", "entry")):
        raise NotFound("There is no such account in this policy.")
    return account, known


def _named(request: HttpRequest, known: list[MyPriority]) -> MyPriority | None:
    """The first account that has all names of the query string."""
    for account in known:
        if all(request.GET.get(name) in (None, own) for name, own in names_of(account).items()):
            return account
    return None
