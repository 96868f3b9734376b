"""The page of advice: absent, asked, ready, stale and failed, and the forms that it fills in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.contrib.lab.advisor.runs import digest_of
from apps.contrib.lab.models import PolicyAdvice
from apps.runs.models import Run
from tests.contrib.lab.advisor.site import computed_advice, site_with_history
from tests.pages.page import Page, read
from tests.priority_site import Site
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    made = site_with_history(make_site)
    made.recompute()
    return made


@pytest.fixture
def admin(site: Site, client: Client) -> Client:
    return sign_in(client, User.objects.create_superuser("root", password="x"))


def page(client: Client, site: Site) -> Page:
    return read(client.get(_url(site)))


def _url(site: Site, name: str = "advice") -> str:
    return reverse(f"dashboard:{name}", kwargs={"policy": site.slug})


def _with_half_life_of_four_days() -> None:
    """Evidence in which four days are nearer: the site's own in all else."""
    row = PolicyAdvice.objects.get()
    other = next(each for each in row.evidence["half_lives"] if not each["is_now"])
    other |= {"name": "4 days", "value": 345_600}
    for each in (*row.evidence["half_lives"], *row.evidence["algorithms"]):
        each["training"] = each["held_back"] = [2.0, 2.0] if each is other else [4.0, 4.0]
    row.digest = digest_of(row.evidence)
    row.save()


def test_it_is_asked_for_computed_and_shown(admin: Client, site: Site) -> None:
    empty = page(admin, site)
    assert empty.item("advice").attributes["data-state"] == "absent"
    assert empty.items("choice") == []
    assert admin.post(_url(site)).status_code == 303
    waiting = page(admin, site)
    assert waiting.has("[data-poll]")
    assert not waiting.has("#compute-advice")
    computed_advice(site)
    shown = page(admin, site)
    assert [each.attributes["data-key"] for each in shown.items("choice")] == [
        "operator",
        "resolution",
        "half_life",
        "algorithm",
    ]
    stored = admin.get(reverse("api:policy-advice", kwargs={"policy": site.slug})).json()
    assert shown.item("advice").text() == stored["advice"]["sentence"]
    assert shown.item("held-back").text() == stored["advice"]["held_back"]["sentence"]
    for each in stored["advice"]["choices"]:
        table = f"[data-key={each['subject']}] tbody tr"
        assert len(shown.all(table)) == len(each["candidates"]), each["subject"]
    operators = read(admin.get(_url(site, "operators")))
    assert stored["advice"]["sentence"] in operators.item("advice").text()


def test_a_change_opens_the_form_with_the_advised_values(admin: Client, site: Site) -> None:
    computed_advice(site)
    _with_half_life_of_four_days()
    shown = page(admin, site)
    assert shown.item("advice").text().startswith("Change: Half-life: 4 days instead of 7 days.")
    link = shown.one("[data-key=half_life] a.btn.primary").attributes["href"] or ""
    form = read(admin.get(link.partition("#")[0]))
    assert form.one("#id_half_life_s").attributes["value"] == "4 d"
    assert form.one("#id_length_s").attributes["value"] == "90 d"


def test_the_form_of_an_algorithm_takes_its_parameters_from_the_address(admin: Client, site: Site) -> None:
    address = f"{_url(site, 'algorithm')}?algorithm=aequus&operator=sigmoid-2&resolution=4096"
    form = read(admin.get(address))
    assert form.one("#id_resolution").attributes["value"] == "4096"
    assert form.one("[name=operator][checked]").attributes["value"] == "sigmoid-2"
    wrong = read(admin.get(f"{_url(site, 'algorithm')}?algorithm=aequus&resolution=none"))
    assert wrong.one("#id_resolution").attributes["aria-invalid"] == "true"


def test_failed_and_stale_advice_says_so(admin: Client, site: Site) -> None:
    computed_advice(site)
    site.job("bob", "physics", 9, ago_h=24 * 5)
    assert "the usage of its days has changed since" in page(admin, site).text(".note.warn")
    run = Run.objects.filter(kind="advice").latest("pk")
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED, error="The disk is full.")
    failed = page(admin, site)
    assert "The disk is full." in failed.text(".note.bad")
    assert failed.items("choice")
