"""Advice on the page of the algorithm: absent, asked, ready, stale and failed, and the draft that it makes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import User
from apps.contrib.lab.advisor.runs import digest_of
from apps.contrib.lab.models import PolicyAdvice
from apps.policies.changesets.change_sets import settings_of
from apps.policies.models import ChangeSet
from apps.runs.models import Run
from tests.contrib.lab.advisor.site import computed_advice
from tests.pages.page import Page, read
from tests.priority_site import Site
from tests.sign_in import sign_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(site: Site, client: Client) -> Client:
    return sign_in(client, User.objects.create_superuser("root", password="x"))


def page(client: Client, site: Site) -> Page:
    return read(client.get(_url(site)))


def _url(site: Site, name: str = "algorithm") -> str:
    return reverse(f"pages:{name}", kwargs={"policy": site.slug})


def _with_half_life_of_four_days() -> None:
    """Evidence in which four days are nearer: the site's own in all else."""
    row = PolicyAdvice.objects.get()
    other = next(each for each in row.evidence["half_lives"] if not each["is_now"])
    other |= {"name": "4 days", "value": 345_600}
    for each in (*row.evidence["half_lives"], *row.evidence["algorithms"]):
        each["training"] = each["held_back"] = [2.0, 2.0] if each is other else [4.0, 4.0]
    row.digest = digest_of(row.evidence)
    row.save()


@pytest.mark.deep
def test_it_is_asked_for_computed_and_shown(admin: Client, site: Site) -> None:
    empty = page(admin, site)
    assert empty.item("advice").attributes["data-state"] == "absent"
    assert empty.items("choice") == []
    assert admin.post(_url(site, "advice"))["Location"] == _url(site)
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
    part = read(admin.get(_url(site, "advice-part"), headers={"HX-Request": "true"}))
    assert part.item("advice").text() == stored["advice"]["sentence"]
    assert not shown.has("#draft-advice"), "it changes nothing"
    n_change_sets = ChangeSet.objects.count()
    assert admin.post(_url(site, "advice-draft"))["Location"] == _url(site)
    assert ChangeSet.objects.count() == n_change_sets


@pytest.mark.deep
def test_an_advised_change_becomes_a_draft_of_these_settings_alone(admin: Client, advised: Site) -> None:
    _with_half_life_of_four_days()
    shown = page(admin, advised)
    assert shown.item("advice").text().startswith("Change: Half-life: 4 days instead of 7 days.")
    assert shown.has("#draft-advice")
    answer = admin.post(_url(advised, "advice-draft"))
    change_set = ChangeSet.objects.latest("pk")
    assert answer["Location"] == reverse("pages:change", kwargs={"change_set": change_set.pk})
    assert change_set.reason.startswith("Change: Half-life: 4 days instead of 7 days.")
    published = settings_of(advised.policy, advised.policy.head_number)
    wanted = dict(published.window) | {"half_life_s": 345_600}
    assert change_set.operations == [{"op": "set_policy", "settings": {"window": wanted}}]
    assert admin.get(answer["Location"]).status_code == 200


def test_the_form_of_an_algorithm_takes_its_parameters_from_the_address(admin: Client, site: Site) -> None:
    address = f"{_url(site, 'algorithm')}?algorithm=aequus&operator=sigmoid-2&resolution=4096"
    form = read(admin.get(address))
    assert form.one("#id_resolution").attributes["value"] == "4096"
    assert form.one("[name=operator][checked]").attributes["value"] == "sigmoid-2"
    wrong = read(admin.get(f"{_url(site, 'algorithm')}?algorithm=aequus&resolution=none"))
    assert wrong.one("#id_resolution").attributes["aria-invalid"] == "true"


@pytest.mark.deep
def test_failed_and_stale_advice_says_so(admin: Client, advised: Site) -> None:
    advised.job("bob", "physics", 9, ago_h=24 * 5)
    assert "The usage of its days" in page(admin, advised).text(".note.warn")
    PolicyAdvice.objects.update(head_number=0)
    assert "It is of revision 0, and 2 is published." in page(admin, advised).text(".note.warn")
    month = PolicyAdvice.objects.get().computed_at - timedelta(days=31)
    PolicyAdvice.objects.update(computed_at=month)
    assert f"It is of {month:%B %Y}." in page(admin, advised).text(".note.warn")
    run = Run.objects.filter(kind="advice").latest("pk")
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED, error="The disk is full.")
    failed = page(admin, advised)
    assert "The disk is full." in failed.text(".note.bad")
    assert failed.items("choice")
