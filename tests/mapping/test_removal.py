"""What was made by mistake can be removed while nothing depends on it, by REST and by command; the audit log has it."""

from __future__ import annotations

import io
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import IntegrityError, models, transaction

from apps.accounts.actor import COMMAND, SYSTEM, Actor, TokenBounds
from apps.accounts.models import AuditEvent
from apps.core.derived_state import Kept
from apps.core.errors import NotAllowed, NotFound
from apps.mapping.removal import archive_policy, archive_source, remove_policy, remove_source
from apps.mapping.rules.rule import Rule
from apps.mapping.services import set_rules
from apps.policies.models import ChangeSet, Entry, Policy, Revision
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, make_policy
from apps.policies.tree.stored import load_tree
from apps.priorities.recompute.staleness import request_recompute
from apps.priorities.serving import store
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage.models import Import, Source
from apps.usage.services import NewSource, make_source
from docsite.derived_state import declared
from tests.instants import AT
from tests.rest_site import Caller, refused
from tests.small_site import Site

WHY = {"reason": "A typing error", "at": AT, "actor": COMMAND}


@pytest.fixture
def mistake(small_site: Site) -> Policy:
    return make_policy(slug="gird", name="Gird", at=AT, actor=COMMAND)


@pytest.fixture
def admin(small_site: Site) -> Caller:
    return Caller(user=small_site.admin)


def test_a_policy_is_removed_with_all_its_results(mistake: Policy, admin: Caller) -> None:
    work_run_now(request_recompute(policy_slug="gird", at=AT, actor=COMMAND).pk)
    store.poll()
    waiting = request_recompute(policy_slug="gird", at=AT, actor=COMMAND)
    answer = admin.client.delete("/api/v1/policies/gird?reason=A+typing+error", headers=admin.headers)
    assert answer.status_code == 204, answer.content
    assert admin.get("policies/gird").status_code == 404
    assert [row["slug"] for row in admin.get("policies").json()["results"]] == ["grid", "other"]
    assert not Revision.objects.filter(policy_id=mistake.pk).exists()
    assert Run.objects.get(pk=waiting.pk).state == Run.State.CANCELLED
    removed = AuditEvent.objects.get(verb="policy.removed")
    assert (removed.policy_slug, removed.reason, removed.outcome) == ("gird", "A typing error", "done")
    store.poll()
    assert "gird" not in store.state().policies
    again = make_policy(slug="gird", name="Gird", at=AT, actor=COMMAND)
    assert again.pk != mistake.pk


@pytest.mark.parametrize("token", [None, TokenBounds("fsh_x", frozenset({"admin"}), source_slug="cluster-a")])
def test_only_administrators_remove_and_archive_and_not_through_a_bound_token(
    small_site: Site, mistake: Policy, token: TokenBounds | None
) -> None:
    """The manager of a group has every other right there."""
    person = small_site.pia if token is None else small_site.admin
    by = Actor(user=person, via="page" if token is None else "api", token=token)
    for act in (remove_source, archive_source):
        with pytest.raises((NotAllowed, NotFound)):
            act(slug="cluster-a", reason="A typing error", at=AT, actor=by)
    for act_on_policy in (remove_policy, archive_policy):
        with pytest.raises((NotAllowed, NotFound)):
            act_on_policy(slug="gird", reason="A typing error", at=AT, actor=by)
    assert Policy.objects.filter(slug="gird", archived_at=None).exists()
    assert Source.objects.filter(slug="cluster-a", archived_at=None).exists()


def test_a_policy_with_entries_cannot_be_removed_and_lists_its_dependents(small_site: Site, admin: Caller) -> None:
    answer = admin.client.delete("/api/v1/policies/grid?reason=x", headers=admin.headers)
    status, code, places = refused(answer)
    assert (status, code) == (409, "in_use")
    assert {"entries, current and former", "mapping rules", "grants"} <= set(places)
    assert Policy.objects.filter(slug="grid").exists()


def test_an_empty_policy_with_rules_or_drafts_cannot_be_removed(mistake: Policy) -> None:
    root = load_tree(mistake).uuid(0)
    set_rules(policy_slug="gird", rules=[Rule(kind="glob", target_uid=root, user_pattern="*")], at=AT, actor=SYSTEM)
    add = {"op": "add", "parent": "/", "name": "a", "kind": "vo", "shares": 1}
    make_change_set(policy_slug="gird", new=NewChangeSet(base_revision=1, operations=[add]), at=AT, actor=COMMAND)
    with pytest.raises(CommandError, match="open change sets, mapping rules"):
        call_command("remove", "policy", "gird", "--reason", "x")
    assert ChangeSet.objects.filter(policy=mistake).count() == 2


def test_the_database_keeps_the_history_of_policies_with_entries(small_site: Site) -> None:
    for kind in (Revision, Entry):
        with pytest.raises(IntegrityError), transaction.atomic():
            kind._default_manager.filter(policy=small_site.policy).delete()


def test_a_source_without_usage_is_removed_with_its_attempts(small_site: Site, admin: Caller, tmp_path: Path) -> None:
    make_source(NewSource(slug="clutser", name="Clutser"), at=AT, actor=COMMAND)
    log = tmp_path / "log.swf"
    log.write_text("; UnixStartTime: 1132444805\n1 10 -1 3600 2 -1 -1 -1 -1 -1 1 7 3 -1 -1 40 -1 -1\n")
    call_command("import_usage", "--source", "clutser", "--dry-run", str(log), stdout=io.StringIO())
    assert Import.objects.filter(source__slug="clutser").count() == 1
    out = io.StringIO()
    call_command("remove", "source", "clutser", "--reason", "A typing error", stdout=out)
    assert "Removed" in out.getvalue()
    assert not Source.objects.filter(slug="clutser").exists()
    assert AuditEvent.objects.get(verb="source.removed").subject == "clutser"
    assert admin.get("usage/sources/clutser").status_code == 404


def test_a_source_with_usage_cannot_be_removed(small_site: Site, admin: Caller) -> None:
    answer = admin.client.delete("/api/v1/usage/sources/cluster-a?reason=x", headers=admin.headers)
    status, code, places = refused(answer)
    assert (status, code) == (409, "in_use")
    assert {"records", "hourly sums"} <= set(places)
    assert Source.objects.filter(slug="cluster-a").exists()


@pytest.mark.parametrize("remove", [remove_policy, remove_source])
def test_a_removal_needs_a_reason(mistake: Policy, remove: Any) -> None:
    make_source(NewSource(slug="gird", name="Gird"), at=AT, actor=COMMAND)
    with pytest.raises(Exception, match="reason"):
        remove(slug="gird", **{**WHY, "reason": " "})
    assert Policy.objects.filter(slug="gird").exists()
    assert Source.objects.filter(slug="gird").exists()


# Derived, and still kept: what they are made of is user data of the same source, or a site's decision.
HOLDING = {
    "packs.rulestep",
    "priorities.fallback",
    "usage.bucket",
    "usage.sealedhour",
    "usage.sealedkind",
    "usage.unclearjob",
}


@pytest.mark.product
def test_no_table_that_is_computed_holds_its_policy_or_source() -> None:
    derived = set()
    for module, state in declared():
        if state.kept == Kept.TABLE:
            derived |= {getattr(import_module(f"apps.{module}"), name) for name in state.names}
    referring = {
        relation.related_model
        for owner in (Policy, Source)
        for relation in owner._meta.get_fields(include_hidden=True)
        if isinstance(relation, models.ForeignObjectRel)
    }
    holding = {each._meta.label_lower for each in derived & referring if not getattr(each, "goes_with_owner", False)}
    assert holding == HOLDING
    going = {each for each in apps.get_models() if getattr(each, "goes_with_owner", False)}
    assert going <= referring
