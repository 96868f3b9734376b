"""Which account counts where: accounts without an entry, rules with what they match now, attached ones, versions."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.core import clock
from apps.dashboard.mapping import presenters as mapping_lines
from apps.dashboard.shell import presentation
from apps.dashboard.shell.actor import actor_of
from apps.dashboard.shell.htmx import fragment
from apps.mapping import attachments as attaching
from apps.mapping.permissions import MapRights, rights_in
from apps.mapping.selectors import MappingPage, get_mapping_page
from apps.mapping.versions import list_version_lines
from apps.policies.models import Policy
from apps.usage.selectors import list_sources

_MOST_PATHS = 500
_MOST_ATTACHED = 100


def page_url(policy: str) -> str:
    return reverse("dashboard:mappings", kwargs={"policy": policy})


@require_safe
def mappings(request: HttpRequest, policy: str) -> HttpResponse:
    """Accounts without an entry first, because their usage counts for nobody."""
    page = _page(request, policy)
    verdict, at_stake = mapping_lines.head_words(page)
    return render(
        request,
        "dashboard/mapping/mappings.html",
        {
            **_unmapped_context(page),
            **_rules_context(request, page),
            **_attached_context(page),
            "verdict": verdict,
            "at_stake": at_stake,
            "crumbs": crumbs_of(page.rights.policy, last=True),
        },
    )


@require_safe
@fragment(page_url)
def unmapped(request: HttpRequest, policy: str) -> HttpResponse:
    """`?after=` so many of them."""
    return render(request, "dashboard/mapping/_unmapped.html", _unmapped_context(_page(request, policy)))


@require_safe
@fragment(page_url)
def rules(request: HttpRequest, policy: str) -> HttpResponse:
    page = _page(request, policy)
    return render(request, "dashboard/mapping/_rules.html", _rules_context(request, page))


@require_safe
def versions(request: HttpRequest, policy: str) -> HttpResponse:
    """What was mapped when, the newest first."""
    rights = rights_in(policy, at=clock.now(), actor=actor_of(request))
    text = request.GET.get("before", "")
    before = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    found = list_version_lines(rights, before=before, limit=31)
    shown = found[:30]
    return render(
        request,
        "dashboard/mapping/versions.html",
        {
            "policy": policy,
            "policy_name": rights.policy.name,
            "versions": [mapping_lines.version_line(rights, line, source_names(request)) for line in shown],
            "older": shown[-1].version.number if len(found) > len(shown) else None,
            "is_whole": rights.may_name(0),
            "crumbs": [*crumbs_of(rights.policy), {"label": _("Versions")}],
        },
    )


def crumbs_of(policy: Policy, *, last: bool = False) -> list[dict[str, str]]:
    here = {"label": _("Accounts")} if last else {"label": _("Accounts"), "url": page_url(policy.slug)}
    return [{"label": policy.name, "url": reverse("dashboard:policy", kwargs={"policy": policy.slug})}, here]


def source_names(request: HttpRequest) -> dict[str, str]:
    return {source.slug: source.name for source in list_sources(actor=actor_of(request))}


def paths_to_choose(rights: MapRights) -> list[str]:
    """Entries at which accounts may be placed, the highest first: for typing."""
    return [rights.tree.path(entry) for entry in rights.entries_mapped(_MOST_PATHS)]


def _page(request: HttpRequest, policy: str) -> MappingPage:
    text = request.GET.get("after", "")
    after = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return get_mapping_page(policy_slug=policy, after=after, at=clock.now(), actor=actor_of(request))


def _unmapped_context(page: MappingPage) -> dict[str, Any]:
    most = max((line.stake.core_s for line in page.unmapped), default=0.0)
    return {
        **_base(page),
        "unmapped": [mapping_lines.unmapped_line(page, line, most) for line in page.unmapped],
        "n_unmapped": page.n_unmapped,
        "n_hidden": page.n_hidden,
        "next_after": page.next_after,
        "n_waiting": page.n_waiting,
        "waiting_core_s": page.waiting_core_s,
        "paths": paths_to_choose(page.rights) if page.may_edit and page.unmapped else [],
    }


def _rules_context(request: HttpRequest, page: MappingPage) -> dict[str, Any]:
    sources = source_names(request)
    return {
        **_base(page),
        "rules": [mapping_lines.rule_line(page, line, sources) for line in page.rules],
        "n_exact": sum(line.tier == 0 for line in page.rules),
        "by_members": presentation.count(page.n_by_members) if page.n_by_members else "",
        "members_core_h": presentation.core_hours(page.members_core_s),
        "attached_accounts": presentation.count(page.n_attached) if page.n_attached else "",
        "attached_core_h": presentation.core_hours(page.attached_core_s),
    }


def _attached_context(page: MappingPage) -> dict[str, Any]:
    rights = page.rights
    rows = attaching.list_attachments(rights, limit=_MOST_ATTACHED + 1)
    attached = []
    for row in rows[:_MOST_ATTACHED]:
        entry = rights.tree.index_of_uid(row.entry_uid)
        gone = mapping_lines.PlaceWords(_("an archived entry: rules apply"), is_none=True)
        attached.append(
            {
                "account": row.account_id,
                "words": mapping_lines.account_words(attaching.key_of(row.account)),
                "place": gone if entry is None else mapping_lines.place_words(rights, entry),
                "row": row,
                "may_let_go": rights.may_map(entry or 0),
            }
        )
    return {"attached": attached, "has_more_attached": len(rows) > _MOST_ATTACHED}


def _base(page: MappingPage) -> dict[str, Any]:
    return {
        "policy": page.rights.policy.slug,
        "policy_name": page.rights.policy.name,
        "version": page.version,
        "may_edit": page.may_edit,
        "is_whole": page.is_whole,
    }
