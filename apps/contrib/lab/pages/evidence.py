"""Experiments as evidence on the review of a change set: what it would have changed, and how far the model errs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from apps.contrib.lab.experiments.change_set_of_variant import policy_part
from apps.contrib.lab.experiments.permissions import may_manage, numbers_hidden
from apps.contrib.lab.experiments.records import ReplayEvidence
from apps.contrib.lab.experiments.selectors import get_variant_report, list_evidence
from apps.contrib.lab.experiments.spec import read_spec
from apps.contrib.lab.models import Experiment
from apps.contrib.lab.pages import presenters
from apps.contrib.lab.pages.group_wait_rows import group_wait_table
from apps.core.errors import Conflict, Invalid
from apps.pages.changes.review.pages import open_page
from apps.pages.changes.review.reviewed_change import ReviewPage
from apps.policies.models import ChangeSet, Policy
from apps.web.changes.change_titles import title_of
from apps.web.links.addresses import review_url
from apps.web.shell.requests import is_htmx


def is_shown(page: ReviewPage) -> bool:
    """Where there is evidence, and where a manager may still make some."""
    if not page.sees_all_numbers:
        return False
    change_set, policy = page.review.change_set, page.review.policy
    if Experiment.objects.filter(change_set=change_set).exists():
        return True
    return page.review.is_open and may_manage(policy, at=page.now, actor=page.actor)


@require_safe
def experiments(request: HttpRequest, change_set: int) -> HttpResponse:
    """The card of the review; a page of its own without scripts."""
    page = open_page(request, change_set)
    if not page.sees_all_numbers:
        raise numbers_hidden()
    reviewed, policy = page.review.change_set, page.review.policy
    evidence = list_evidence(change_set=reviewed, at=page.now, actor=page.actor)
    title = title_of(reviewed, actor=page.actor, at=page.now).text
    context = {
        "policy": policy.slug,
        "policy_name": policy.name,
        "change_set": reviewed,
        "title": title,
        "rows": [_row(policy, reviewed, each, page) for each in evidence],
        "may_try": page.review.is_open and may_manage(policy, at=page.now, actor=page.actor),
        "crumbs": [
            {"label": policy.name, "url": reverse("pages:policy", kwargs={"policy": policy.slug})},
            {"label": title, "url": review_url(reviewed.pk)},
            {"label": _("Tried in the lab")},
        ],
    }
    name = "_evidence" if is_htmx(request) else "evidence"
    return render(request, f"contrib/lab/{name}.html", context)


def _row(policy: Policy, reviewed: ChangeSet, evidence: ReplayEvidence, page: ReviewPage) -> dict[str, Any]:
    detail = evidence.detail
    index = variant_of(policy, reviewed, detail.spec)
    report = evidence.report
    if index is not None and (report is None or report.index != index):
        try:
            report = get_variant_report(
                policy_slug=policy.slug, experiment_id=detail.row.id, index=index, at=page.now, actor=page.actor
            )
        except Conflict:  # this variant has no result
            report = None
    is_edited = index is not None and detail.variants[index].change_set is not None
    lines = presenters.variant_lines(policy.slug, detail, index)
    return {
        "detail": detail,
        "url": presenters.experiment_url(policy.slug, detail.row.id),
        "badge": presenters.state_badge(detail.row.state),
        "kind": str(presenters.KINDS[detail.row.kind]),
        "period": presenters.period_text(detail),
        "attached_at": evidence.attached_at,
        "attached_by": evidence.attached_by,
        "model_error": [] if detail.model_error is None else presenters.model_error_sentences(detail.model_error),
        "history": presenters.history_texts(detail),
        "lines": lines,
        "findings": presenters.findings(detail),
        "waits": None if index is None else group_wait_table(detail, index, at=page.now, actor=page.actor),
        "is_variant": index is not None,
        "is_stale": is_edited and reviewed.updated_at > detail.row.created_at,
        "is_moved": detail.row.revision != policy.head_number,
        "moved_sentence": presenters.moved_sentence(report) if report is not None and report.index else "",
        "gains": presenters.moved_lines(report.gains[:3]) if report is not None else [],
        "losses": presenters.moved_lines(report.losses[:3]) if report is not None else [],
    }


def variant_of(policy: Policy, change_set: ChangeSet, spec: Mapping[str, Any]) -> int | None:
    """The variant that simulates this change set: as its draft, or with exactly its edits. None if there is none."""
    read = read_spec(spec)
    for index in range(1, read.n_runs):
        if read.setup(index).change_set == change_set.pk:
            return index
        try:
            part = policy_part(policy, read, index)
        except Invalid:  # an algorithm that is gone
            continue
        if part.draft is None and part.operations and part.operations == change_set.operations:
            return index
    return None
