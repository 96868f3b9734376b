"""Policies kept in a repository: made, compared, proposed, reviewed, published and checked for drift by REST alone."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.models import AuditEvent, User
from apps.policies.models import ChangeSet, Policy
from tests.rest_site import Caller, refused
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

YAML = "application/yaml"
DOCUMENT = "policies/grid/document"


@pytest.fixture
def admin(site: Site) -> Caller:
    return Caller(token=site.token("policies:write", "policies:read"))


def tree_of(name: str, **shares: float) -> str:
    children = "".join(f"    - name: {entry}\n      shares: {share}\n" for entry, share in shares.items())
    return f"root:\n  name: {name}\n  children:\n{children}"


def n_drafts() -> int:
    return ChangeSet.objects.filter(state="draft").count()


def test_a_policy_is_created_with_its_settings(admin: Caller) -> None:
    body = {"slug": "lab", "name": "The lab", "visibility": "tree", "settings": {"fallback_factor": 0.25}}
    made = admin.post("policies", body)
    assert made.status_code == 201, made.content
    assert made.headers["Location"] == "/api/v1/policies/lab"
    data = made.json()
    assert (data["slug"], data["name"], data["visibility"], data["head_revision"]) == ("lab", "The lab", "tree", 1)
    assert data["settings"]["fallback_factor"] == 0.25
    assert admin.get("policies/lab").json() == data
    assert AuditEvent.objects.filter(policy_slug="lab").exists()


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        ({}, (400, "invalid", ["slug"])),
        ({"slug": "Not This"}, (422, "invalid", ["slug"])),
        ({"slug": "grid"}, (422, "invalid", ["slug"])),
        ({"slug": "lab", "visibility": "all"}, (422, "invalid", ["visibility"])),
        ({"slug": "lab", "colour": "red"}, (400, "unknown_field", ["colour"])),
        ({"slug": "lab", "settings": {"fallback_factor": 7}}, (422, "bad_settings", ["fallback_factor"])),
    ],
)
def test_an_invalid_policy_is_refused_with_the_location(
    admin: Caller, body: dict[str, Any], answer: tuple[int, str, list[str]]
) -> None:
    n_before = Policy.objects.count()
    status, code, places = refused(admin.post("policies", body))
    assert (status, code, [place.removeprefix("settings.") for place in places]) == answer
    assert Policy.objects.count() == n_before


def test_only_administrators_create_policies(site: Site) -> None:
    assert refused(Caller(user=site.pia).post("policies", {"slug": "lab"}))[0] == 403
    assert not Policy.objects.filter(slug="lab").exists()


def test_a_dry_run_answers_with_the_difference_and_stores_nothing(admin: Caller) -> None:
    n_before = ChangeSet.objects.count()
    table = "path,shares\n/physics/bob,30\n/physics/zoe,1\n"
    answer = admin.put(f"{DOCUMENT}?dry_run=1&keep_missing=1", table, content_type="text/csv")
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["is_same"], body["change_set"], body["counts"]["added"], body["counts"]["shares"]) == (
        False,
        None,
        1,
        1,
    )
    assert {each["path"]: each["changes"] for each in body["entries"]}["/physics/zoe"] == ["added"]
    assert ChangeSet.objects.count() == n_before


def test_a_document_becomes_a_draft_without_changing_the_policy(admin: Caller) -> None:
    head = admin.get("policies/grid").json()["head_revision"]
    answer = admin.put(
        f"{DOCUMENT}?keep_missing=1&reason=Zoe+joins", "path,shares\n/physics/zoe,1\n", content_type="text/csv"
    )
    assert answer.status_code == 201, answer.content
    draft = answer.json()["change_set"]
    assert answer.headers["Location"] == f"/api/v1/policies/grid/changesets/{draft}"
    found = admin.get(f"policies/grid/changesets/{draft}").json()
    assert (found["state"], found["reason"], found["origin"]) == ("draft", "Zoe joins", "import")
    assert admin.get("policies/grid").json()["head_revision"] == head


def test_a_document_that_is_followed_leaves_published_shares_and_makes_one_draft(admin: Caller) -> None:
    table = "path,shares\n/physics/bob,30\n/physics/zoe,1\n"
    first, again = (
        admin.put(f"{DOCUMENT}?keep_missing=1&follow=1", table, content_type="text/csv").json() for _ in range(2)
    )
    assert {what: first["counts"][what] for what in ("added", "shares")} == {"added": 1, "shares": 0}
    assert first["change_set"] == again["change_set"]
    assert n_drafts() == 1


@pytest.mark.parametrize("format", ["json", "yaml", "csv"])
def test_importing_an_exported_document_changes_nothing(admin: Caller, format: str) -> None:
    read = admin.get(f"{DOCUMENT}?format={format}")
    answer = admin.put(DOCUMENT, read.content, content_type=read.headers["Content-Type"])
    assert answer.status_code == 200, answer.content
    assert (answer.json()["is_same"], answer.json()["change_set"]) == (True, None)
    assert n_drafts() == 0


def test_a_repeated_request_with_its_key_makes_one_draft(admin: Caller) -> None:
    table = "path,shares\n/physics/zoe,1\n"
    asked = {"content_type": "text/csv", "Idempotency_Key": "commit-1"}
    first, again = (admin.put(f"{DOCUMENT}?keep_missing=1", table, **asked) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert n_drafts() == 1
    other = admin.put(f"{DOCUMENT}?keep_missing=1", table + "/physics/zed,1\n", **asked)
    assert refused(other) == (409, "idempotency_key_reused", [])
    other = admin.put(DOCUMENT, table, **asked)
    assert refused(other) == (409, "idempotency_key_reused", []), "the same body for another purpose"


@pytest.mark.parametrize(
    ("body", "content_type", "answer"),
    [
        ("root:\n  name: a\n  name: b\n", YAML, (422, "bad_document")),
        ("path,shares\n/a,x\n", "text/csv", (422, "bad_document")),
        ("\xff\xfe", "text/csv", (422, "bad_encoding")),
        ("path,shares\n", "text/html", (415, "unsupported_media_type")),
        ("", "", (415, "unsupported_media_type")),
    ],
)
def test_a_bad_document_is_refused(admin: Caller, body: str, content_type: str, answer: tuple[int, str]) -> None:
    sent = admin.put(DOCUMENT, body.encode("latin-1"), content_type=content_type)
    assert refused(sent)[:2] == answer
    assert n_drafts() == 0


@pytest.mark.parametrize("format", ["json", "yaml", "csv"])
def test_an_empty_document_archives_nothing(admin: Caller, format: str) -> None:
    assert refused(admin.put(f"{DOCUMENT}?format={format}"))[0] == 422
    assert n_drafts() == 0


def test_a_document_of_an_older_revision_is_refused_on_request(admin: Caller) -> None:
    tag = admin.get(DOCUMENT).headers["ETag"]
    asked = {"content_type": "text/csv", "If_Match": tag}
    assert admin.put(f"{DOCUMENT}?dry_run=1", "path,shares\n/a,1\n", **asked).status_code == 200
    draft = admin.put(f"{DOCUMENT}?keep_missing=1&reason=x", "path,shares\n/physics/zoe,1\n", **asked).json()
    admin.post(f"policies/grid/changesets/{draft['change_set']}/publish", {"reason": "x"})
    assert refused(admin.put(f"{DOCUMENT}?dry_run=1", "path,shares\n/a,1\n", **asked))[0] == 412


def test_proposing_a_document_needs_full_visibility(site: Site) -> None:
    answer = Caller(user=site.pia).put(f"{DOCUMENT}?dry_run=1", "path,shares\n/a,1\n", content_type="text/csv")
    assert refused(answer)[:2] == (403, "partial_view")


@pytest.mark.deep
def test_a_repository_of_two_policies_is_published_and_checked_by_rest(site: Site) -> None:
    """Ten commits to two files, each proposed by the pipeline, approved by a second person and published once."""
    pipeline, reviewer = (
        Caller(token=site.token("policies:write", "policies:read", user=site.admin)),
        Caller(user=User.objects.create_superuser("second")),
    )
    for slug in ("alpha", "beta"):
        for _ in range(2):
            made = pipeline.post("policies", {"slug": slug, "name": slug.title()}, Idempotency_Key=f"make-{slug}")
            assert made.status_code == 201, made.content
    commits = [(f"c{n}", "alpha" if n % 2 else "beta", {"physics": 10 + n, "biology": 5}) for n in range(10)]
    for commit, slug, shares in commits:
        for _ in range(2):  # the pipeline is started again: nothing happens twice
            _deliver(pipeline, reviewer, commit, slug, tree_of(slug, **shares))
    for slug in ("alpha", "beta"):
        assert pipeline.get(f"policies/{slug}").json()["head_revision"] == 6
        assert not ChangeSet.objects.filter(policy__slug=slug).exclude(state="published").exists()
        repository = tree_of(slug, **next(shares for _, its, shares in reversed(commits) if its == slug))
        assert _drift(pipeline, slug, repository) == []
    draft = reviewer.post(
        "policies/alpha/changesets",
        {
            "base_revision": 6,
            "reason": "by hand",
            "operations": [{"op": "set_shares", "entry": "/biology", "shares": 9}],
        },
    ).json()
    reviewer.post(f"policies/alpha/changesets/{draft['id']}/publish", {})
    assert _drift(pipeline, "alpha", tree_of("alpha", physics=19, biology=5)) == ["/biology", "/physics"]


def _deliver(pipeline: Caller, reviewer: Caller, commit: str, slug: str, text: str) -> None:
    answer = pipeline.put(
        f"policies/{slug}/document?reason=Commit+{commit}", text, content_type=YAML, Idempotency_Key=commit
    )
    assert answer.status_code == 201, answer.content
    at = f"policies/{slug}/changesets/{answer.json()['change_set']}"
    state = pipeline.get(at).json()["state"]
    if state == "published":
        return
    assert pipeline.post(f"{at}/propose", {}, Idempotency_Key=commit).json()["state"] == "proposed"
    assert reviewer.post(f"{at}/approve", {}).status_code == 200
    done = pipeline.post(f"{at}/publish", {}, Idempotency_Key=commit)
    assert done.json()["state"] == "published", done.content


def _drift(pipeline: Caller, slug: str, text: str) -> list[str]:
    body = pipeline.put(f"policies/{slug}/document?dry_run=1", text, content_type=YAML).json()
    assert body["is_same"] == (not body["entries"])
    return sorted(each["path"] for each in body["entries"])
