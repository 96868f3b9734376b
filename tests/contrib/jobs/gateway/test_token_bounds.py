"""Tokens that are bound to a subtree and SAM's ledger of a whole policy."""

from __future__ import annotations

from apps.accounts.actor import SYSTEM
from apps.contrib.jobs.gateway.services import Rules, set_rules
from tests.instants import AT
from tests.rights_world import World
from tests.test_token_bounds import call
from tests.worlds import fresh_process  # noqa: F401 - fixture


def test_a_token_of_a_subtree_spends_nobody_s_share_by_sam(world: World) -> None:
    site, rules = world.site, Rules()
    set_rules(policy_slug="grid", rules=rules, received=None, at=AT, actor=SYSTEM)
    for scope in ("admin", "schedulers"):
        text = site.token(scope, policy_slug="grid", subtree_uid=site.uid("/biology"))
        for group in ("physics", "biology"):
            answer = call(world, text, "post", "policies/grid/sam/decide", {"job": "1", "group": group, "benefit": 1})
            assert answer.status_code == 403
        assert call(world, text, "get", "policies/grid/sam").status_code == 404
