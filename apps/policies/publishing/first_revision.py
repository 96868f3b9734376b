"""A policy made of a whole tree at once, published as revision 1."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from apps.accounts.actor import Actor
from apps.core.errors import FieldProblem, Invalid
from apps.policies.changesets.change_sets import require_reason
from apps.policies.files.parsed_document import Declared
from apps.policies.formats.base import Format
from apps.policies.models import ChangeSet, Policy
from apps.policies.operations.algorithm_fit import refuse_misfit
from apps.policies.operations.whole_trees import summary
from apps.policies.publishing.revisions import NextRevision, publish
from apps.policies.services import new_change_set, require_admin, slug_problems, unless_slug_exists
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.document_merge import adopt, refuse_new_names
from apps.policies.tree.names import clean_name
from apps.policies.tree.reshape import columns_of
from apps.policies.tree.uids import new_uid


def first_tree(declared: Declared, format: Format) -> TreeColumns:
    """What a file declares as a tree of its own, all uids known, in no policy yet."""
    nothing = columns_of([Node(new_uid(), None, declared.policy or "root")])
    tree = adopt(declared, nothing, fitted=format.fit(nothing))
    refuse_new_names(declared, nothing, tree)
    return tree


def begin_policy(
    *, slug: str, name: str, tree: TreeColumns, settings: PolicySettings, reason: str, at: datetime, actor: Actor
) -> Policy:
    """The policy, with this tree as its first revision. Its users see their own path, until a manager opens it."""
    require_admin(actor, slug)
    problems = slug_problems(slug)
    try:
        name = clean_name(name)
    except ValueError as error:
        problems.append(FieldProblem("name", str(error)))
    if problems:
        raise Invalid(f"{problems[0].where} {problems[0].message}.", fields=problems)
    refuse_misfit(tree, settings.algorithm)
    said = require_reason(reason)
    whole = replace(tree, name=[slug, *tree.name[1:]], policy_slug=slug, digest="")
    following = NextRevision(whole, settings, [], whole.nodes(), len(whole), len(whole))
    with unless_slug_exists(slug):
        policy = Policy.objects.create(slug=slug, name=name, created_at=at)
        change_set = new_change_set(policy, 0, summary(following), said, None, actor, at, ChangeSet.Origin.IMPORT)
        publish(policy=policy, change_set=change_set, following=following, actor=actor, reason=said, at=at)
        return policy
