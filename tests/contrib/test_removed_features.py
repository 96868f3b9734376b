"""What removed features left in bookmarks, files and rows: each gets a sentence, and loses nothing else.

Old pages and routes are in tests/test_idor_matrix.py, old fields in tests/web/rest/test_deprecations.py, and old
environment variables in tests/test_settings_file.py.
"""

from __future__ import annotations

import re

import pytest
from django.test import Client

from apps.accounts.actor import COMMAND
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
