"""The menu of a policy's own drafts."""

from __future__ import annotations

from typing import Any

from django import template

from apps.core import clock
from apps.policies.changesets import drafts
from apps.policies.publishing.revert import revision_to_undo
from apps.policies.selectors import get_policy
from apps.web.changes.change_titles import titles_of
from apps.web.shell.requests import actor_of

register = template.Library()

_SHOWN = 5


@register.inclusion_tag("pages/changes/drafts/_mine.html", takes_context=True)
def my_drafts(context: dict[str, Any], policy_slug: str) -> dict[str, Any]:
    """{% my_drafts page.policy_slug %}: Edit button and the actor's open drafts; empty without permission to edit."""
    actor, at = actor_of(context["request"]), clock.now()
    policy = get_policy(slug=policy_slug, actor=actor)
    may_edit = drafts.may_edit(policy, actor, at)
    own_drafts = drafts.list_drafts(policy=policy, at=at, actor=actor) if may_edit else []
    shown = own_drafts[:_SHOWN]
    titles = titles_of(shown, actor=actor, at=at)
    undoes = revision_to_undo(policy, actor.user.pk if actor.user else None, at=at) if may_edit else None
    return {
        "policy_slug": policy_slug,
        "may_edit": may_edit,
        "drafts": [{"draft": each, "title": titles[each.pk].text, "n": len(each.operations)} for each in shown],
        "n_drafts": len(own_drafts),
        "undoes": undoes,
    }
