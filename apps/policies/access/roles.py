"""The verbs of a role, unless they were chosen singly."""

from __future__ import annotations

from collections.abc import Mapping

from apps.policies.models import Grant

_SEES = (Grant.Verb.VIEW_AGGREGATE,)
_LEADS = (*_SEES, Grant.Verb.VIEW_MEMBERS, Grant.Verb.EDIT_SHARES, Grant.Verb.MAP_ACCOUNTS, Grant.Verb.PUBLISH)
_MANAGES = (*_LEADS, Grant.Verb.EDIT_STRUCTURE, Grant.Verb.APPROVE, Grant.Verb.DELEGATE, Grant.Verb.MANAGE_USAGE)

VERBS_OF_ROLE: Mapping[str, tuple[str, ...]] = {
    Grant.Role.VIEWER: _SEES,
    Grant.Role.LEAD: _LEADS,
    Grant.Role.MANAGER: _MANAGES,
    Grant.Role.ADMIN: tuple(Grant.Verb.values),
}
