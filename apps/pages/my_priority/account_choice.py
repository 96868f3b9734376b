"""Which of the reader's accounts a page or a card shows, by its query string."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import parse_qsl, urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from apps.core.errors import NotFound
from apps.explain.my_priority import MyPriority, get_my_priority
from apps.web.shell import time_travel
from apps.web.shell.requests import actor_of

SHOWN = "shown"  # parameter of the list of accounts: the parameters that choose one


def names_of(priority: MyPriority) -> dict[str, str]:
    """The parameters that choose an account."""
    return {
        "account": priority.account,
        "namespace": priority.namespace,
        "policy": priority.policy_slug,
        "entry": "" if priority.entry_uid is None else str(priority.entry_uid),
    }


def page_url(**_kwargs: object) -> str:
    return reverse("pages:my-priority")


def address_of(priority: MyPriority, at: int | datetime | None = None, **more: str) -> str:
    """URL of the page for one account."""
    moment = {} if at is None else {"at": time_travel.moment_text(at)}
    return f"{page_url()}?{urlencode({**names_of(priority), **moment, **more})}"


@dataclass(frozen=True, slots=True)
class AccountChoice:
    """An account in the list. value: of SHOWN."""

    value: str
    label: str
    is_shown: bool


def choices_of(accounts: Sequence[MyPriority], shown: MyPriority) -> list[AccountChoice]:
    """All accounts by their place in the tree, and by their name where several are at one place or at none."""
    places = Counter((account.policy_slug, account.entry_path) for account in accounts)
    policies = {account.policy_slug for account in accounts}

    def label(account: MyPriority) -> str:
        place = account.entry_path.strip("/").replace("/", " / ")
        if account.error:
            place = _("%(account)s (not mapped)") % {"account": account.name}
        elif places[account.policy_slug, account.entry_path] > 1:
            place = f"{place} ({account.name})"
        return f"{account.policy_name}: {place}" if len(policies) > 1 else place

    return [AccountChoice(urlencode(names_of(each)), label(each), each is shown) for each in accounts]


def chosen_address(request: HttpRequest) -> str:
    """The page of the account that was chosen in the list; "" if none was."""
    chosen = dict(parse_qsl(request.GET.get(SHOWN, "")))
    return f"{page_url()}?{urlencode(chosen)}" if chosen else ""


def chosen_of(request: HttpRequest, at: int | datetime | None) -> tuple[MyPriority | None, list[MyPriority]]:
    """The account named in the query string, else the best one; and all accounts, those without an entry last."""
    policy = request.GET.get("policy") or None
    accounts = get_my_priority(actor=actor_of(request), at=at, policy_slug=policy if isinstance(at, int) else None)
    accounts.sort(key=lambda account: bool(account.error))
    return _named(request, accounts) or next(iter(accounts), None), accounts


def account_of_card(request: HttpRequest, at: int | datetime | None) -> tuple[MyPriority | None, list[MyPriority]]:
    """The account named in the query string, and the reader's mapped accounts in its policy, best first.

    Without any name it is the best one; None for a reader without accounts.

    Raises:
        NotFound: the reader has no such account. A card never shows another one than the page.
    """
    accounts = get_my_priority(actor=actor_of(request), at=at, policy_slug=request.GET.get("policy") or None)
    known = [account for account in accounts if not account.error]
    is_named = any(name in request.GET for name in ("account", "namespace", "policy", "entry"))
    account = _named(request, accounts if is_named else known)
    if account is None and is_named:
        raise NotFound("There is no such account in this policy.")
    return account, known


def _named(request: HttpRequest, known: Sequence[MyPriority]) -> MyPriority | None:
    """The first account that has all names of the query string."""
    for account in known:
        if all(request.GET.get(name) in (None, own) for name, own in names_of(account).items()):
            return account
    return None
