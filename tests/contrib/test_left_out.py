"""A plug-in that is left out: the core's pages answer without it, with the same numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import resolve

from apps.accounts.actor import Actor
from apps.core import clock
from apps.policies.changesets import drafts
from tests.contrib.left_out import answers_without
from tests.examples import first
from tests.pages.grid import SLUG, Grid
from tests.pages.page import Page, read
from tests.rights_world import ISSUER, World
from tests.sign_in import sign_in
from tests.test_idor_matrix import READS

PAGE, ME = "/me/priority/", "/api/v1/me"
# Each with those that require it.
ALONE = {
    "allocations": ("allocations",),
    "forecast": ("forecast",),
    "jobs": ("jobs", "schedulers", "onboarding", "search", "starts"),
    "lab": ("lab",),
    "notices": ("notices", "allocations"),
    "onboarding": ("onboarding",),
    "schedulers": ("schedulers", "onboarding", "search", "starts"),
    "search": ("search",),
    "starts": ("starts",),
}
DESCRIBES = {"allocations": "{notice}"}  # the world's notice is of a kind that this plug-in adds
LEFT_OUT = {
    "all": ("onboarding", "jobs", "schedulers", "allocations", "notices", "forecast", "lab", "search", "starts"),
    "forecast": ("forecast",),
    "schedulers": ("schedulers", "onboarding", "search", "starts"),
    "notices": ("notices", "allocations"),
}
OTHERS = (
    "/me/priority/",
    f"/policy/{SLUG}/",
    f"/policy/{SLUG}/convergence/",
    "/api/v1/me/explain",
    "/readyz",
    "/metrics",
)
OF_PLUGINS = {
    "forecast": ("/me/priority/_submit?job_core_h=20", f"/api/v1/me/submit?policy={SLUG}", "/api/v1/me/forecast"),
    "schedulers": (
        f"/me/priority/_waiting?policy={SLUG}",
        f"/api/v1/me/waiting-jobs?policy={SLUG}",
        "/api/v1/schedulers",
    ),
}
UNLIKE = {"when": None, "age_s": None}  # what forecast and queue say, and the time of the answer
CARDS = {"forecast": ("#submit", "#forecast"), "schedulers": ("#waiting-jobs",)}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("left_out", first(1, LEFT_OUT))
def test_pages_of_the_core_answer_without_a_plugin(grid: Grid, client: Client, left_out: str) -> None:
    with_all = sign_in(client, grid.alice)
    absent = OF_PLUGINS.get(left_out, ())
    answers = answers_without(LEFT_OUT[left_out], grid.alice.username, (PAGE, ME, *OTHERS, *absent))
    assert {address: status for address, (status, _body) in answers.items() if status != 200} == dict.fromkeys(
        absent, 404
    )
    page, whole = Page(answers[PAGE][1]), read(with_all.get(PAGE))
    for card in CARDS.get(left_out, ()):
        assert page.all(card) == []
        assert whole.all(card) != []
    assert page.text("#verdict") == whole.text("#verdict")
    accounts, expected = json.loads(answers[ME][1])["accounts"], with_all.get(ME).json()["accounts"]
    assert [each | UNLIKE for each in accounts] == [each | UNLIKE for each in expected]


@pytest.mark.deep
@pytest.mark.timeout(300)
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("left_out", ALONE)
def test_only_addresses_of_plugins_that_are_left_out_are_gone(
    world: World, left_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all that the rights matrix asks for. An entry's page answers the address of a card that is gone."""
    monkeypatch.setenv("FAIRSHARE_ISSUER", ISSUER)
    addresses = {row.path.format(**world.objects): row.path for row in READS}
    whole, rest = (answers_without(plugins, "admin", tuple(addresses)) for plugins in ((), ALONE[left_out]))
    gone = {address: rest[address][0] for address in addresses if rest[address][0] != whole[address][0]}
    assert gone
    assert {address: status for address, status in gone.items() if status not in (301, 404)} == {}
    rooms = tuple(f"apps.contrib.{name}." for name in ALONE[left_out])
    described = tuple(DESCRIBES[name] for name in ALONE[left_out] if name in DESCRIBES)
    others = [address for address in gone if not _module_of(address).startswith(rooms)]
    assert [address for address in others if not any(each in addresses[address] for each in described)] == []


def _module_of(address: str) -> str:
    """Where the view of an address is defined."""
    view: Any = resolve(address.partition("?")[0]).func
    return str((getattr(view, "cls", None) or getattr(view, "view_class", None) or view).__module__)


@pytest.mark.deep
@pytest.mark.django_db(transaction=True)
def test_settings_lead_to_the_lab_where_there_is_one(grid: Grid, client: Client) -> None:
    address, advice = f"/policy/{SLUG}/algorithm/", f'#advice-part form[action^="/policy/{SLUG}/advice/"]'
    whole = read(sign_in(client, grid.admin).get(address))
    search = "/search/?q=operator"
    answers = answers_without(("lab",), grid.admin.username, (address, search))
    assert [status for status, _body in answers.values()] == [200, 200]
    assert f'href="{address}"' in answers[search][1]
    alone = Page(answers[address][1])
    assert whole.has(advice)
    assert not alone.has("#advice-part")
    assert alone.text("#verdict") == whole.text("#verdict")


@pytest.mark.deep
@pytest.mark.django_db(transaction=True)
def test_shares_are_dragged_without_a_prediction(grid: Grid) -> None:
    draft = drafts.open_draft(policy_slug=SLUG, at=clock.now(), actor=Actor(user=grid.admin, via="page"))
    address = f"/changes/{draft.pk}/edit/?view=bars"
    answers = answers_without(("forecast",), grid.admin.username, (address,))
    assert [status for status, _body in answers.values()] == [200]
    page = Page(answers[address][1])
    assert "data-dates" not in page.one("#editor").attributes
    assert (page.has(".c-ranks"), page.has(".c-when")) == (True, False)
