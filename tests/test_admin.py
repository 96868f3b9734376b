"""Break-glass: every list opens, what is history can't be changed, and every change is in the log."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from apps.accounts.actor import COMMAND
from apps.accounts.models import AuditEvent, User
from apps.policies.models import Grant, Policy, Revision
from apps.policies.services import make_policy
from apps.policies.tree.stored import load_tree
from tests.instants import AT

OURS = [model for model in admin.site._registry if model.__module__.startswith("apps.")]
pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"), backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.fixture
def policy() -> Policy:
    return make_policy(slug="grid", name="Grid", at=AT, actor=COMMAND)


@pytest.mark.parametrize("model", OURS, ids=lambda model: model._meta.label_lower)
def test_every_list_opens(model: type, root: Client, policy: Policy) -> None:
    answer = root.get(reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"))  # type: ignore[attr-defined]
    assert answer.status_code == 200
    assert "script-src 'self'" in answer["Content-Security-Policy"]


def test_a_revision_is_read_only(root: Client, policy: Policy) -> None:
    revision = Revision.objects.get()
    url = reverse("admin:policies_revision_change", args=[revision.pk])
    page: Any = root.get(url)
    assert (page.status_code, page.context["has_change_permission"]) == (200, False)
    assert root.post(url, {"reason": "other"}).status_code == 403
    assert Revision.objects.get().reason == revision.reason != "other"


def test_the_visibility_of_a_policy_is_changed_and_audited(root: Client, policy: Policy) -> None:
    url = reverse("admin:policies_policy_change", args=[policy.pk])
    form = {"name": "Grid", "description": "", "visibility": "tree"}
    assert root.post(url, form).status_code == 302
    policy.refresh_from_db()
    assert policy.visibility == "tree"
    event = AuditEvent.objects.latest("id")
    assert (event.verb, event.actor_name, event.details) == ("admin.changed", "root", {"fields": ["visibility"]})


def test_granting_and_revoking_is_audited(root: Client, policy: Policy) -> None:
    bob = User.objects.create_user("bob")
    form = {
        "policy": policy.pk,
        "entry_uid": load_tree(policy).uuid(0),
        "user": bob.pk,
        "role": "viewer",
        "reason": "x",
    }
    assert root.post(reverse("admin:policies_grant_add"), form).status_code == 302
    grant = Grant.objects.get()
    assert grant.granted_by is not None
    assert grant.granted_by.username == "root"
    assert root.post(reverse("admin:policies_grant_delete", args=[grant.pk]), {"post": "yes"}).status_code == 302
    assert list(AuditEvent.objects.order_by("-id").values_list("verb", flat=True)[:2]) == [
        "admin.deleted",
        "admin.added",
    ]


def test_staff_without_rights_see_nothing(policy: Policy) -> None:
    client = Client()
    client.force_login(
        User.objects.create_user("clerk", is_staff=True), backend="django.contrib.auth.backends.ModelBackend"
    )
    for name, args in (("policies_policy_change", [policy.pk]), ("policies_policy_changelist", [])):
        answer = client.get(reverse(f"admin:{name}", args=args))
        assert (answer.status_code, policy.slug in answer.content.decode()) == (403, False), name
