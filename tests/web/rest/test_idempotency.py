"""A POST that is repeated with its Idempotency-Key is answered and not done again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.urls import URLPattern, get_resolver

from apps.accounts.clock_watch import note_clock
from apps.accounts.idempotency import KEPT, get_stored_answer, store_answer
from apps.accounts.models import AuditEvent, IdempotentAnswer, Token
from apps.core import outbound
from apps.federation.models import Publication
from apps.policies.models import ChangeSet, Grant
from apps.web.rest.views import APIView
from tests.grants import make_grant
from tests.instants import AT
from tests.plugin_parts import added
from tests.rest_site import Caller, refused
from tests.small_site import Site

PATH = "policies/grid/changesets"
BODY: dict[str, Any] = {
    "base_revision": 2,
    "reason": "try",
    "operations": [{"op": "set_shares", "entry": "/physics/bob", "shares": 18}],
}
READ_BY_POST = {
    "priorities-lookup",
    "mapping-trial",
    "mount-preview",
    "subscription-preview",
    "usage-records",
    "document-against",
}


@pytest.fixture
def pia(site: Site) -> Caller:
    return Caller(user=site.pia)


@pytest.mark.fault("F2")
def test_a_repeated_request_gets_the_first_response_and_creates_nothing(pia: Caller) -> None:
    n_before = ChangeSet.objects.count()
    first = pia.post(PATH, BODY, Idempotency_Key="ci-1")
    again = pia.post(PATH, {**BODY, "operations": list(BODY["operations"])}, Idempotency_Key="ci-1")
    assert (first.status_code, again.status_code) == (201, 201), again.content
    assert again.json() == first.json()
    assert again.headers["ETag"] == first.headers["ETag"] == '"1"'
    assert ("Idempotency-Replayed" in first.headers, again.headers["Idempotency-Replayed"]) == (False, "true")
    assert ChangeSet.objects.count() == n_before + 1
    assert AuditEvent.objects.filter(verb="changeset.drafted").count() == 1


def test_a_key_with_another_body_is_refused(pia: Caller) -> None:
    pia.post(PATH, BODY, Idempotency_Key="ci-1")
    n_before = ChangeSet.objects.count()
    other = pia.post(PATH, {**BODY, "reason": "another"}, Idempotency_Key="ci-1")
    assert refused(other) == (409, "idempotency_key_reused", [])
    assert ChangeSet.objects.count() == n_before


def test_keys_belong_to_one_user_and_one_route(site: Site, pia: Caller) -> None:
    first = pia.post(PATH, BODY, Idempotency_Key="ci-1").json()
    others = Caller(user=site.admin).post(PATH, BODY, Idempotency_Key="ci-1").json()
    assert others["id"] != first["id"]
    step = pia.post(f"{PATH}/{first['id']}/propose", {}, Idempotency_Key="ci-1")
    assert step.json()["state"] == "proposed"
    assert pia.post(f"{PATH}/{first['id']}/propose", {}, Idempotency_Key="ci-1").json() == step.json()


def test_a_refused_request_is_audited_and_can_be_repeated_with_its_key(site: Site, pia: Caller) -> None:
    bad = {**BODY, "operations": [{"op": "set_shares", "entry": "/physics/nobody", "shares": 18}]}
    assert pia.post(PATH, bad, Idempotency_Key="ci-1").status_code >= 400
    assert pia.post(PATH, BODY, Idempotency_Key="ci-1").status_code == 201
    ben = Caller(user=site.ben)
    draft = ben.post(PATH, {**BODY, "operations": [{"op": "set_shares", "entry": "/biology", "shares": 5}]}).json()
    answer = ben.post(f"{PATH}/{draft['id']}/publish", {"reason": "mine"}, Idempotency_Key="ci-2")
    assert answer.status_code == 403
    assert AuditEvent.objects.filter(outcome="refused", actor_name__contains="ben").exists()


@pytest.mark.parametrize("key", ["", "x" * 129])
def test_a_bad_key_is_refused(pia: Caller, key: str) -> None:
    assert refused(pia.post(PATH, BODY, Idempotency_Key=key)) == (400, "invalid", ["Idempotency-Key"])


def test_a_response_is_stored_for_thirty_days(pia: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pia.post(PATH, BODY, Idempotency_Key="ci-1").json()
    IdempotentAnswer.objects.update(created_at=AT - KEPT - timedelta(seconds=1))
    assert pia.post(PATH, BODY, Idempotency_Key="ci-1").json()["id"] != first["id"]
    assert IdempotentAnswer.objects.count() == 1


def test_a_jump_of_the_clock_neither_deletes_a_response_nor_repeats_its_request(db: None) -> None:
    first: dict[str, Any] = {"scope": "pia", "key": "ci-1", "body_sha256": "a"}
    store_answer(**first, answer={"id": 7}, at=AT)
    note_clock(AT, database_at=AT)
    ahead = AT + timedelta(days=400)
    assert get_stored_answer(**first, at=ahead) == {"id": 7}
    store_answer(**{**first, "key": "ci-2"}, answer={"id": 8}, at=ahead)
    assert get_stored_answer(**first, at=AT + timedelta(minutes=1)) == {"id": 7}


def test_a_secret_is_not_stored_for_repeats(site: Site) -> None:
    admin = Caller(user=site.admin)
    body = {"name": "ci", "scopes": ["policies:read"]}
    n_before = Token.objects.count()
    made = admin.post("tokens", body, Idempotency_Key="t-1")
    assert made.status_code == 201, made.content
    secret = made.json()["token"]
    assert refused(admin.post("tokens", body, Idempotency_Key="t-1")) == (409, "idempotency_key_used", [])
    assert Token.objects.count() == n_before + 1
    assert not IdempotentAnswer.objects.filter(answer__icontains=secret).exists()


def test_every_creating_post_honours_the_key() -> None:
    ignoring = set()
    for route in routes():
        view: Any = getattr(route.callback, "view_class", None) or getattr(route.callback, "cls", None)
        if view is None or not hasattr(view, "post"):
            continue
        assert issubclass(view, APIView), route
        if view.on_repeat == "work":
            ignoring.add(str(route.name))
    assert ignoring == READ_BY_POST.union(added("rest_operations", "READ_BY_POST"))


def routes() -> list[URLPattern]:
    (api,) = (each for each in get_resolver().url_patterns if "api/v1" in str(each.pattern))
    return [each for each in api.url_patterns if isinstance(each, URLPattern)]  # type: ignore[union-attr]


@pytest.mark.parametrize("what", ["mounts", "subscriptions"])
def test_no_transaction_is_open_during_requests_to_other_sites(
    site: Site, admin: Caller, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A slow peer would hold the key's lock and a connection for as long as it pleases."""
    depths: list[int] = []

    def fetch(*_given: Any, **_more: Any) -> outbound.Answer:
        depths.append(len(connection.savepoint_ids))
        raise outbound.Unreachable("It doesn't answer.")

    monkeypatch.setattr(outbound, "fetch", fetch)
    Publication.objects.create(policy=site.policy, entry_uid=site.uid("/physics"), name="physics", made_at=AT)
    outside = len(connection.savepoint_ids)
    body = {"policy": "grid", "url": "https://peer.example/api/v1/publications/vo"}
    more = {} if what == "mounts" else {"entry": "/physics"}
    answer = admin.post(f"federation/{what}/preview", {**body, **more}, Idempotency_Key="k")
    assert depths == [outside], answer.content
    assert not IdempotentAnswer.objects.exists()


def test_a_narrower_token_of_the_same_person_gets_no_stored_answer(site: Site) -> None:
    narrow = site.token("admin", policy_slug="grid", subtree_uid=site.uid("/biology"))
    first = Caller(token=site.token("admin")).post(PATH, BODY, Idempotency_Key="ci-1")
    again = Caller(token=narrow).post(PATH, BODY, Idempotency_Key="ci-1")
    assert (first.status_code, again.status_code) == (201, 404), again.content
    assert "Idempotency-Replayed" not in again.headers
    rotated = Caller(token=site.token("admin")).post(PATH, BODY, Idempotency_Key="ci-1")
    assert rotated.headers["Idempotency-Replayed"] == "true", "the same scopes and bounds"


def test_who_has_lost_the_right_gets_no_stored_answer(site: Site, pia: Caller) -> None:
    pia.post(PATH, BODY, Idempotency_Key="ci-1")
    n_before = ChangeSet.objects.count()
    Grant.objects.filter(user=site.pia).delete()
    again = pia.post(PATH, BODY, Idempotency_Key="ci-1")
    assert again.status_code in (403, 404), again.content
    assert "Idempotency-Replayed" not in again.headers
    assert ChangeSet.objects.count() == n_before


def test_other_rights_leave_the_stored_answer_where_it_is_still_allowed(site: Site, pia: Caller) -> None:
    first = pia.post(PATH, BODY, Idempotency_Key="ci-1")
    n_before = ChangeSet.objects.count()
    make_grant(site.pia, site.uid("/biology"), Grant.Role.VIEWER, policy=site.policy)
    again = pia.post(PATH, BODY, Idempotency_Key="ci-1")
    assert (again.json(), again.headers["Idempotency-Replayed"]) == (first.json(), "true")
    assert ChangeSet.objects.count() == n_before
