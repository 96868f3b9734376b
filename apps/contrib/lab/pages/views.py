"""The page of one experiment: progress, results, figures; and what may be done with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments import selectors, services
from apps.contrib.lab.experiments.change_set_of_variant import make_change_set_of_variant, policy_part
from apps.contrib.lab.experiments.records import ExperimentDetail, VariantReport
from apps.contrib.lab.experiments.spec import read_spec
from apps.contrib.lab.experiments.state_of_variant import variant_if_published
from apps.contrib.lab.pages import presenters
from apps.contrib.lab.pages.distances import distance_table
from apps.contrib.lab.pages.figures import ExperimentFigures, shares, waits
from apps.contrib.lab.pages.group_figure import chosen_report, group_shares
from apps.contrib.lab.pages.group_wait_rows import group_wait_table
from apps.contrib.lab.pages.list_views import lab_url
from apps.contrib.lab.pages.numbers import estimate_text
from apps.contrib.lab.pages.printed import printed_rows
from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotFound, status_of
from apps.core.plugins import DrawnPart
from apps.core.typed_numbers import read_whole
from apps.policies.changesets.review import list_of_change_sets
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.web.changes.change_titles import titles_of
from apps.web.figures import Figure
from apps.web.links.addresses import review_url
from apps.web.shell.figure_frames import answer_figure, framed
from apps.web.shell.requests import SeeOther, actor_of, fragment
from apps.web.tried_waits import list_tried_waits

DRAWN: dict[str, Callable[[ExperimentFigures], Figure]] = {"group": group_shares, "share": shares, "waits": waits}


def page_url(policy: str, experiment: int, **_kwargs: Any) -> str:
    return presenters.experiment_url(policy, experiment)


@require_safe
def experiment(request: HttpRequest, policy: str, experiment: int) -> HttpResponse:
    """`?variant=`: whose entries are listed, `?entry=`: whose share is drawn."""
    return _show(request, policy, experiment)


@require_safe
@fragment(page_url)
def now(request: HttpRequest, policy: str, experiment: int) -> HttpResponse:
    """Progress, which the page asks for again while it runs; the whole page once it has ended."""
    detail = _detail(request, policy, experiment)
    response = render(request, "contrib/lab/_now.html", _now_context(detail))
    if detail.row.state not in presenters.OPEN_STATES:
        response["HX-Refresh"] = "true"
    return response


@require_safe
def figure(request: HttpRequest, policy: str, experiment: int, figure: str, form: str = "json") -> HttpResponseBase:
    """One figure for the page's query, as JSON or CSV."""
    if figure not in DRAWN:
        raise NotFound(_("There is no such figure."))
    detail = _detail(request, policy, experiment)
    return answer_figure(request, DRAWN[figure](_figures(request, detail)), form)


def _detail(request: HttpRequest, policy: str, experiment: int) -> ExperimentDetail:
    return selectors.get_experiment(
        policy_slug=policy, experiment_id=experiment, at=clock.now(), actor=actor_of(request)
    )


def _figures(request: HttpRequest, detail: ExperimentDetail) -> ExperimentFigures:
    return ExperimentFigures(detail, _reports(detail, at=clock.now(), actor=actor_of(request)), request.GET)


def _reports(detail: ExperimentDetail, *, at: datetime, actor: Actor) -> list[VariantReport]:
    """Of the variants that are done."""
    return [
        selectors.get_variant_report(
            policy_slug=detail.row.policy, experiment_id=detail.row.id, index=row.index, at=at, actor=actor
        )
        for row in detail.variants
        if row.state == "done"
    ]


def _show(
    request: HttpRequest, policy: str, experiment: int, *, status: int = 200, refusal: str = "", code: str = ""
) -> HttpResponse:
    actor, at = actor_of(request), clock.now()
    detail = _detail(request, policy, experiment)
    viewed = get_policy(slug=policy, actor=actor, is_past=True)
    may_use = detail.may_manage and not detail.spec.get("scenario")  # which is not about this policy
    context = {
        **_now_context(detail),
        "refusal": refusal,
        "refusal_code": code,
        "crumbs": [
            {"label": viewed.name, "url": reverse("pages:policy", kwargs={"policy": policy})},
            {"label": _("Lab"), "url": lab_url(policy)},
            {"label": detail.row.name},
        ],
        "json_url": reverse("api:experiment", kwargs={"policy": policy, "experiment": experiment}),
        "policy_name": viewed.name,
        **_results(request, detail, viewed, at=at, actor=actor),
        **(_actions(viewed, detail, at=at, actor=actor) if may_use else {}),
        "may_use": may_use,
    }
    return render(request, "contrib/lab/experiment.html", context, status=status)


def _now_context(detail: ExperimentDetail) -> dict[str, Any]:
    """What changes while it runs."""
    row = detail.row
    is_open = row.state in presenters.OPEN_STATES
    return {
        "policy": row.policy,
        "detail": detail,
        "row": row,
        "badge": presenters.state_badge(row.state),
        "is_open": is_open,
        "title": row.name,
        "estimate": estimate_text(detail.estimate),
        "period": presenters.period_text(detail),
        "kind": str(presenters.KINDS[row.kind]),
        "base_text": presenters.base_text(detail),
        "findings": presenters.findings(detail),
        "model_error": [] if detail.model_error is None else presenters.model_error_sentences(detail.model_error),
        "history": presenters.history_texts(detail),
        "history_url": reverse("api:experiment-history", kwargs={"policy": row.policy, "experiment": row.id}),
        "lines": presenters.variant_lines(row.policy, detail, None),
        "n_done": sum(each.state == "done" for each in detail.variants),
        "url": presenters.experiment_url(row.policy, row.id),
        "now_url": reverse("pages:experiment-now", kwargs={"policy": row.policy, "experiment": row.id}),
        "may_cancel": is_open and detail.may_manage,
        "evidence_url": review_url(row.change_set) if row.change_set else "",
    }


def _results(
    request: HttpRequest, detail: ExperimentDetail, policy: Policy, *, at: datetime, actor: Actor
) -> dict[str, Any]:
    """Figures of all variants, and entries, gains and losses of the chosen one."""
    try:
        reports = _reports(detail, at=at, actor=actor)
    except Conflict as error:  # a damaged result
        return {"damaged": error.message}
    if not reports:
        return {}
    page = ExperimentFigures(detail, reports, request.GET)
    chosen = chosen_report(reports, request.GET.get("variant", "")) or reports[-1]
    query = f"variant={chosen.index}"

    def source(name: str) -> str:
        names = {"policy": detail.row.policy, "experiment": detail.row.id, "figure": name}
        return reverse("pages:experiment-figure", kwargs=names)

    def make(name: str) -> Callable[[], Figure]:
        return lambda: DRAWN[name](page)

    return {
        "frames": [framed(request, source(name), make(name)) for name in DRAWN],
        "lines": presenters.variant_lines(detail.row.policy, detail, chosen.index),
        "chosen": chosen,
        "distances": distance_table(reports, chosen.index),
        "waits": group_wait_table(detail, chosen.index, at=at, actor=actor),
        "planned_waits": _planned_waits(detail, policy, chosen.index, at=at),
        "printed": printed_rows(detail, reports),
        "entries": presenters.entry_lines(chosen, query),
        "n_more_entries": max(0, chosen.n_entries - presenters.SHOWN_ENTRIES),
        "is_compared": chosen.index > 0,
        "gains": presenters.moved_lines(chosen.gains),
        "losses": presenters.moved_lines(chosen.losses),
        "n_more_gains": max(0, chosen.n_gain - presenters.SHOWN_LEAVES),
        "n_more_losses": max(0, chosen.n_lose - presenters.SHOWN_LEAVES),
        "moved_sentence": presenters.moved_sentence(chosen),
        "idle_sentence": presenters.idle_sentence(chosen),
    }


def _planned_waits(detail: ExperimentDetail, policy: Policy, index: int, *, at: datetime) -> list[DrawnPart]:
    """Of the jobs that wait now, if the variant was published: by plug-ins that plan queues."""
    variant = variant_if_published(policy, read_spec(detail.spec), index) if index else None
    if variant is None or policy.archived_at is not None:
        return []
    return list_tried_waits(policy, variant.tree, variant.settings, at)


def _actions(policy: Policy, detail: ExperimentDetail, *, at: datetime, actor: Actor) -> dict[str, Any]:
    """What a manager may do with it: make a change set of a variant, and attach it to one."""
    spec = read_spec(detail.spec)
    drafts = []
    for row in detail.variants:
        if row.index == 0:
            continue
        try:
            part = policy_part(policy, spec, row.index)
        except Invalid:  # an algorithm that is gone
            continue
        names = {"policy": policy.slug, "experiment": detail.row.id, "variant": row.index}
        drafts.append({"row": row, "part": part, "url": reverse("pages:experiment-draft", kwargs=names)})
    open_ones = list_of_change_sets(policy=policy, which="open", actor=actor, at=at)
    own = list_of_change_sets(policy=policy, which="mine", actor=actor, at=at)
    offered = {each.pk: each for each in (*own, *open_ones)}
    titles = titles_of(list(offered.values()), actor=actor, at=at)
    return {
        "drafts": drafts,
        "change_sets": [{"id": pk, "title": titles[pk].text} for pk in offered],
        "is_attached": detail.row.change_set is not None,
    }


def _act(request: HttpRequest, policy: str, experiment: int, work: Callable[[], HttpResponse]) -> HttpResponse:
    """POST does the work; what is refused is said on the page."""
    if request.method != "POST":
        return SeeOther(page_url(policy, experiment))
    try:
        return work()
    except (Invalid, Conflict) as error:
        return _show(request, policy, experiment, status=status_of(error), refusal=error.message, code=error.code)


@require_http_methods(["GET", "HEAD", "POST"])
def cancel(request: HttpRequest, policy: str, experiment: int) -> HttpResponse:
    """End all its simulations."""

    def work() -> HttpResponse:
        services.cancel_experiment(
            policy_slug=policy, experiment_id=experiment, at=clock.now(), actor=actor_of(request)
        )
        messages.success(request, _("Cancelled. Results that are there stay."))
        return SeeOther(page_url(policy, experiment))

    return _act(request, policy, experiment, work)


@require_http_methods(["GET", "HEAD", "POST"])
def repeat(request: HttpRequest, policy: str, experiment: int) -> HttpResponse:
    """Make it once more, with the same seed, on the policy as it is now."""

    def work() -> HttpResponse:
        detail = _detail(request, policy, experiment)
        made = services.create_experiment(
            policy_slug=policy, name=detail.row.name, spec=detail.spec, at=clock.now(), actor=actor_of(request)
        )
        messages.success(request, _("Started. You may close this page."))
        return SeeOther(page_url(policy, made.pk))

    return _act(request, policy, experiment, work)


@require_http_methods(["GET", "HEAD", "POST"])
def attach(request: HttpRequest, policy: str, experiment: int) -> HttpResponse:
    """Show it on the review of the posted change set; with none, on no review."""

    def work() -> HttpResponse:
        text = request.POST.get("change_set", "")
        change_set = read_whole(text, 18)
        if text and change_set is None:
            raise Invalid(_("Choose a change set."))
        services.attach_experiment(
            policy_slug=policy,
            experiment_id=experiment,
            change_set_id=change_set,
            at=clock.now(),
            actor=actor_of(request),
        )
        if change_set is None:
            messages.success(request, _("Detached."))
        else:
            messages.success(request, _("Attached: reviewers see it with the change set."))
        return SeeOther(page_url(policy, experiment))

    return _act(request, policy, experiment, work)


@require_http_methods(["GET", "HEAD", "POST"])
def make_draft(request: HttpRequest, policy: str, experiment: int, variant: int) -> HttpResponse:
    """Make a change set of a variant, with this experiment as evidence; leads to the draft."""

    def work() -> HttpResponse:
        change_set = make_change_set_of_variant(
            policy_slug=policy, experiment_id=experiment, index=variant, at=clock.now(), actor=actor_of(request)
        )
        messages.success(request, _("A change set was made of the variant. Check it, then request a review."))
        return SeeOther(review_url(change_set.pk))

    return _act(request, policy, experiment, work)


@require_http_methods(["GET", "HEAD", "POST"])
def remove(request: HttpRequest, policy: str, experiment: int) -> HttpResponse:
    """Delete it with its results; leads to the list."""

    def work() -> HttpResponse:
        services.remove_experiment(
            policy_slug=policy, experiment_id=experiment, at=clock.now(), actor=actor_of(request)
        )
        messages.success(request, _("Removed."))
        return SeeOther(lab_url(policy))

    return _act(request, policy, experiment, work)
