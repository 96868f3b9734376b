"""What removed features left in bookmarks, files and rows: each gets a sentence, and loses nothing else.

Old pages and routes are in tests/test_idor_matrix.py, old fields in tests/web/rest/test_deprecations.py, and old
environment variables in tests/test_settings_file.py.
"""

from __future__ import annotations

import re
from datetime import date

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import StateApps
from django.test import Client

from apps.accounts.actor import COMMAND
from apps.contrib.allocations.services import AllocationTerms, allocations_of, create_allocation
from apps.contrib.notices.models import Rule, Webhook
from apps.core.errors import Invalid
from apps.policies.models import Policy
from apps.policies.services import publish_document
from tests.instants import AT
from tests.sign_in import sign_in
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

FORMER_TRIAL = {"policy": "grid", "core_h": "5", "target": "0.2", "days": "7", "load": "1.5", "level": "x"}


def test_a_bookmark_with_a_former_trial_opens_my_priority_and_says_what_replaced_it(computed_site: Site) -> None:
    alice = sign_in(Client(), computed_site.alice)
    plain, trial = (alice.get("/me/priority/", query).content.decode() for query in ({"policy": "grid"}, FORMER_TRIAL))
    headings = [re.findall(r"<h[12].*?</h[12]>", page, re.DOTALL) for page in (plain, trial)]
    assert headings[0] == headings[1] != []
    note = re.search(r'data-testid="removed".*?</p>', trial, re.DOTALL)
    assert note
    assert "Submit under" in note[0]
    assert 'data-testid="removed"' not in plain


def test_a_bookmark_of_the_card_itself_keeps_its_policy(computed_site: Site) -> None:
    answer = sign_in(Client(), computed_site.alice).get("/me/priority/_whatif", FORMER_TRIAL)
    assert answer.status_code == 410
    assert "/me/priority/?policy=grid" in answer.content.decode()


def test_a_document_with_a_setting_of_a_removed_feature_is_refused_by_its_name(computed_site: Site) -> None:
    before = Policy.objects.get(slug="grid").head_number
    for setting in ("what_if", "pack"):
        document = {"policy": "grid", "settings": {setting: {"days": 7}}, "root": {"name": "grid"}}
        with pytest.raises(Invalid) as refused:
            publish_document(policy_slug="grid", document=document, reason="an old file", at=AT, actor=COMMAND)
        assert setting in str([refused.value.message, *refused.value.fields])
        assert Policy.objects.get(slug="grid").head_number == before


def migrate_back(app: str, name: str) -> StateApps:
    """Take the database of this test back to a migration of a plug-in; the models as they were then."""
    executor = MigrationExecutor(connection)
    executor.migrate([(app, name)])
    return executor.loader.project_state([(app, name)]).apps


def migrate_forward() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


@pytest.mark.django_db(transaction=True)
def test_shared_packs_are_counted_as_they_go_and_the_policy_with_its_allocations_stays(
    computed_site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    policy, physics = computed_site.policy, computed_site.uid("/physics")
    create_allocation(
        policy_slug=policy.slug,
        entry_uid=physics,
        terms=AllocationTerms(starts_on=date(2026, 10, 1), ends_on=date(2026, 11, 30), amount=1.0, reason="Round 7."),
        at=AT,
        actor=COMMAND,
    )
    packs = migrate_back("packs", "0001_tables").get_model("packs.SharedPack").objects
    for n in range(2):
        packs.create(
            policy_id=policy.pk,
            entry_uid=physics,
            entry_path="/physics",
            signed=b"{}",
            digest="0" * 64,
            token_hash=bytes([n]),
            created_by_name="eva",
            created_at=AT,
            ends_at=AT,
        )
    capsys.readouterr()
    migrate_forward()
    assert "packs.SharedPack: 2 rows of a removed feature are dropped." in capsys.readouterr().err
    assert [(each.entry_uid, each.amount) for each in allocations_of(policy)] == [(physics, 1.0)]


@pytest.mark.django_db(transaction=True)
def test_rules_and_webhooks_of_removed_notice_kinds_are_named_as_they_go_and_the_others_stay(
    computed_site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    models = migrate_back("notices", "0002_remove_watches_and_rank_notices")
    rules, webhooks = models.get_model("notices.Rule").objects, models.get_model("notices.Webhook").objects
    policy_id = computed_site.policy.pk
    terms = {"days": 3}
    for kind, entry in (("drift", None), ("unmapped_usage", None), ("late_source", computed_site.uid("/physics"))):
        rules.create(kind=kind, policy_id=policy_id, entry_uid=entry, terms=terms, changed_at=AT)
    for name, kinds in (("none left", ["drift"]), ("one left", ["drift", "late_source", "agent_frozen"])):
        owned = {"owner_id": computed_site.admin.pk, "created_at": AT, "queued_until": AT}
        webhooks.create(name=name, url="https://hooks.example/", secret="s", kinds=kinds, **owned)
    capsys.readouterr()
    migrate_forward()
    printed = capsys.readouterr().err
    assert "notices.Rule: 1 set rules of removed kinds are dropped." in printed
    assert "notices.Rule: 1 rules of entries and sources are dropped" in printed
    assert "notices.Webhook: 'none left' is turned off: its kinds were removed." in printed
    assert [(each.kind, each.terms) for each in Rule.objects.filter(policy=policy_id)] == [("unmapped_usage", terms)]
    off, left = Webhook.objects.order_by("name")
    assert (off.is_on, off.kinds, "were removed" in off.off_because) == (False, [], True)
    assert (left.is_on, left.kinds) == (True, ["agent_silent", "late_source"])
