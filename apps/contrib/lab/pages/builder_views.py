"""The builder of an experiment: jobs, the base and its variants side by side, with the estimate beside the button."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from apps.accounts.actor import Actor
from apps.contrib.lab.experiments import selectors, services
from apps.contrib.lab.experiments.asked import has_own_jobs
from apps.contrib.lab.experiments.permissions import policy_to_manage
from apps.contrib.lab.experiments.records import TraceRow
from apps.contrib.lab.experiments.scenario_base import scenario_tree, tree_of_base
from apps.contrib.lab.experiments.scenario_titles import title_of_scenario
from apps.contrib.lab.experiments.spec import MOST_VARIANTS, REPLAY, SYNTHETIC, TRACE, read_spec
from apps.contrib.lab.experiments.traces import (
    LONGEST_TRACE_NAME,
    MOST_TRACE_BYTES,
    list_traces,
    remove_trace,
    upload_trace,
)
from apps.contrib.lab.experiments.variant_trees import entry_named
from apps.contrib.lab.pages import presenters
from apps.contrib.lab.pages.builder_fields import head_fields, variant_fields, workload_fields
from apps.contrib.lab.pages.builder_form import KEPT, BuilderForm, entry_line, form_of_spec, read_posted
from apps.contrib.lab.pages.list_views import lab_url
from apps.contrib.lab.pages.numbers import estimate_text
from apps.contrib.lab.pages.questions import USUAL_DAYS, drawn_workload, entry_choices
from apps.contrib.lab.pages.scenarios import scenario_preset
from apps.contrib.lab.scenario_files import is_shipped, shipped_scenarios
from apps.core import clock
from apps.core.counts import counted
from apps.core.errors import Conflict, Invalid, NotFound, TooLarge, status_of
from apps.core.typed_numbers import read_whole
from apps.policies.changesets.review import list_of_change_sets
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.priorities.selectors.icicle import get_icicle
from apps.priorities.sentences.wait_text import wait_text
from apps.web.changes.change_titles import titles_of
from apps.web.figures import Figure
from apps.web.figures.tree import tree_figure
from apps.web.figures.tree_options import read_tree_options
from apps.web.shell.figure_frames import answer_figure, framed
from apps.web.shell.requests import SeeOther, actor_of, fragment

_REMOVE = "remove-variant-"


@require_http_methods(["GET", "HEAD", "POST"])
def build(request: HttpRequest, policy: str) -> HttpResponse:
    """The form. `?from=`: with an experiment's variants and jobs; `?draft=`: with a change set as variant;
    `?scenario=`: with a shipped scenario; `?compare=`: with the scenarios of a group beside each other.

    POST makes and starts the experiment; the other buttons change the form alone.
    """
    actor, at = actor_of(request), clock.now()
    viewed = policy_to_manage(slug=policy, at=at, actor=actor)
    if request.method != "POST":
        return _show(request, viewed, _first_form(request, viewed, at=at, actor=actor))
    form, step = _posted(request), request.POST.get("step", "start")
    if step == "add-variant":
        form.n_variants = min(form.n_variants + 1, MOST_VARIANTS)
        return _show(request, viewed, form)
    if step.startswith(_REMOVE):
        _remove_variant(form, read_whole(step.removeprefix(_REMOVE), 1) or 0)
        return _show(request, viewed, form)
    if step in ("shares", "jobs"):
        _add_entry(form, viewed, request.POST, step)
        return _show(request, viewed, form, status=422 if form.problems else 200)
    if step == "upload":
        _upload(request, form, policy, at=at, actor=actor)
        return _show(request, viewed, form, status=422 if form.problems else 200)
    if step == "remove-log":
        _remove_log(request, form, policy, at=at, actor=actor)
        return _show(request, viewed, form, status=422 if form.problems else 200)
    if step == "estimate":
        return _show(request, viewed, form, **_estimate(viewed, form, at=at, actor=actor))
    spec = form.spec(_kept_workload(viewed, form, at=at, actor=actor))
    if not form.value("name").strip():
        form.problem("name", _("Enter a name."))
    try:
        if form.problems:  # the other problems are said at once
            selectors.estimate_experiment(policy_slug=policy, spec=spec, at=at, actor=actor)
            return _show(request, viewed, form, status=422)
        name = form.value("name").strip()
        made = services.create_experiment(policy_slug=policy, name=name, spec=spec, at=at, actor=actor)
    except (Invalid, Conflict) as error:
        form.add_refusal(error)
        return _show(request, viewed, form, status=status_of(error))
    messages.success(request, _("Started. You may close this page."))
    return SeeOther(presenters.experiment_url(policy, made.pk))


@require_http_methods(["GET", "HEAD", "POST"])
def estimate(request: HttpRequest, policy: str) -> HttpResponse:
    """What the typed experiment would need, or what is wrong with it, with links to the fields."""
    if request.method != "POST":
        return SeeOther(builder_url(policy))
    actor, at = actor_of(request), clock.now()
    viewed = policy_to_manage(slug=policy, at=at, actor=actor)
    context = _estimate(viewed, _posted(request), at=at, actor=actor)
    return render(request, "contrib/lab/_estimate.html", context)


def _posted(request: HttpRequest) -> BuilderForm:
    """Raises NotFound for a form of a scenario that there isn't."""
    form = read_posted(request.POST)
    if form.value("scenario") and not is_shipped(form.value("scenario")):
        raise NotFound(_("There is no such scenario."))
    return form


def builder_url(policy: str) -> str:
    return reverse("pages:lab-new", kwargs={"policy": policy})


@require_safe
@fragment(builder_url)
def logs(request: HttpRequest, policy: str) -> HttpResponse:
    """The field of the logs, which the page asks for again while one is being read. `?trace=`: the chosen one."""
    actor, at = actor_of(request), clock.now()
    viewed = policy_to_manage(slug=policy, at=at, actor=actor)
    shown = _log_context(viewed, at=at, actor=actor)
    chosen = read_whole(request.GET.get("trace", ""), 18)
    form = BuilderForm({"trace": "" if chosen is None else str(chosen)})
    field = workload_fields(form, shown["choices"])[TRACE][0]
    response = render(request, "contrib/lab/_logs.html", {"policy": policy, "field": field, **shown})
    if not shown["is_reading"]:
        response["HX-Trigger"] = "logs-read"  # then the estimate is made again
    return response


@require_safe
def tree(request: HttpRequest, policy: str, form: str = "json") -> HttpResponseBase:
    """The picture of the policy's tree: a click chooses an entry, and leads nowhere."""
    viewed = policy_to_manage(slug=policy, at=clock.now(), actor=actor_of(request))
    return answer_figure(request, _tree_figure(request, viewed), form)


def _tree_figure(request: HttpRequest, policy: Policy) -> Figure:
    query = request.GET.copy()
    query.setdefault("kind", "icicle")
    options = read_tree_options(query)
    page = get_icicle(
        policy_slug=policy.slug,
        actor=actor_of(request),
        chosen_uid=options.entry,
        sizes=options.size,
        levels=options.levels,
        smallest=options.smallest,
        at=None,
    )
    return tree_figure(page, options, request.GET)


def _first_form(request: HttpRequest, policy: Policy, *, at: datetime, actor: Actor) -> BuilderForm:
    if (kept := read_whole(request.GET.get("from", ""), 18)) is not None:
        detail = selectors.get_experiment(policy_slug=policy.slug, experiment_id=kept, at=at, actor=actor)
        form = form_of_spec(detail.spec, tree_of_base(policy, read_spec(detail.spec)))
        form.values |= {"name": detail.row.name, "kept_from": str(kept)}
    elif (preset := scenario_preset(request.GET)) is not None:
        form = form_of_spec(preset.spec, scenario_tree(preset.spec["scenario"]))
        form.values |= {"name": preset.title, "kind": SYNTHETIC}
    else:
        form = BuilderForm({"kind": REPLAY, "seed": "1"})
        if draft := read_whole(request.GET.get("draft", ""), 18):
            form.values["v1-change_set"] = str(draft)
            form.values["name"] = _("Change set %(id)s tried") % {"id": draft}
    drawn = drawn_workload()
    if form.value("kind") == REPLAY and not has_own_jobs(policy, USUAL_DAYS, at=at):
        form.values["kind"] = SYNTHETIC
    usual = {
        "days": str(USUAL_DAYS),
        "hours": str(drawn["hours"]),
        "sites": "\n".join(f"{site['name']} {site['cpus']}" for site in drawn["sites"]),
        "load": str(drawn["all_users"]["load"]),
        "run_from_h": "0.5",
        "run_to_h": "1.5",
        "job_cpus": "1",
    }
    form.values = usual | form.values
    return form


def _tree_of_form(form: BuilderForm, policy: Policy) -> TreeColumns:
    """The tree of the base: of the scenario that the form began with, or of the policy."""
    return scenario_tree(form.value("scenario")) if form.value("scenario") else load_tree(policy)


def _kept_workload(policy: Policy, form: BuilderForm, *, at: datetime, actor: Actor) -> dict[str, Any] | None:
    """The jobs of the experiment that the form began with."""
    kept = read_whole(form.value("kept_from"), 18)
    if form.value("kind") != KEPT or kept is None:
        return None
    detail = selectors.get_experiment(policy_slug=policy.slug, experiment_id=kept, at=at, actor=actor)
    return dict(detail.spec["workload"])


def _remove_variant(form: BuilderForm, number: int) -> None:
    """Those behind it move up."""
    if not 1 <= number <= form.n_variants:
        return
    kept = {}
    for name, text in form.values.items():
        prefix, _hyphen, rest = name.partition("-")
        place = read_whole(prefix.removeprefix("v"), 1) if prefix.startswith("v") and rest else None
        if place is None or place < number:
            kept[name] = text
        elif place > number:
            kept[f"v{place - 1}-{rest}"] = text
    form.values, form.n_variants = kept, form.n_variants - 1


def _add_entry(form: BuilderForm, policy: Policy, data: QueryDict, what: str) -> None:
    """Add a line for the chosen entry to the base or to a variant."""
    tree, text = _tree_of_form(form, policy), data.get("entry", "").strip()
    form.values["entry"] = text
    prefix = data.get("entry_for", "")
    i = entry_named(tree, text)
    if i is None or i == 0:
        form.problem("entry", _("Choose an entry of the policy, such as /physics."))
        return
    if prefix not in form.prefixes:
        form.problem("entry", _("Choose a variant."))
        return
    line = entry_line(tree.path(i), 2.0 if what == "shares" else 1.0, 2.0 if what == "jobs" else 1.0)
    name = f"{prefix}entries"
    form.values[name] = "\n".join(each for each in (form.value(name).rstrip(), line) if each)


def _upload(request: HttpRequest, form: BuilderForm, policy: str, *, at: datetime, actor: Actor) -> None:
    """Store the log that was sent with the form, and choose it."""
    log = request.FILES.get("log")
    form.values["kind"] = TRACE
    if log is None:
        form.problem("log", _("Choose a file."))
        return
    data = log.read(MOST_TRACE_BYTES + 1)
    try:
        trace = upload_trace(
            policy_slug=policy, name=(log.name or "")[-LONGEST_TRACE_NAME:], data=data, at=at, actor=actor
        )
    except (Invalid, Conflict, TooLarge) as error:
        form.problem("log", next((each.message for each in error.fields), error.message))
    else:
        form.values["trace"] = str(trace.pk)


def _remove_log(request: HttpRequest, form: BuilderForm, policy: str, *, at: datetime, actor: Actor) -> None:
    """Remove the chosen log. Experiments that were made of it keep its jobs."""
    trace = read_whole(form.values.pop("trace", ""), 18)
    if trace is None:
        form.problem("trace", _("Choose a log."))
        return
    try:
        remove_trace(policy_slug=policy, trace_id=trace, at=at, actor=actor)
    except NotFound as error:  # removed by another in the meantime
        form.problem("trace", error.message)
    else:
        messages.success(request, _("Removed. Experiments that were made of it keep its jobs."))


def _estimate(policy: Policy, form: BuilderForm, *, at: datetime, actor: Actor) -> dict[str, Any]:
    spec = form.spec(_kept_workload(policy, form, at=at, actor=actor))
    try:
        needed = selectors.estimate_experiment(policy_slug=policy.slug, spec=spec, at=at, actor=actor)
    except (Invalid, Conflict) as error:
        form.add_refusal(error)
    else:
        if not form.problems:
            return {"estimate": estimate_text(needed)}
    labels = _labels(form)
    return {
        "problem": form.general,
        "problems": [
            {"id": f"id_{name}", "label": labels.get(name, name), "message": message}
            for name, message in form.problems.items()
        ],
    }


def _labels(form: BuilderForm) -> dict[str, str]:
    labels = {name: each.label for name, each in head_fields(form).items()} | {"kind": _("Jobs")}
    labels |= {each.name: each.label for group in workload_fields(form, [("", "")]).values() for each in group}
    for variant in variant_fields(form, [("", "")]):
        labels |= {each.name: f"{variant.title}: {each.label}" for each in (*variant.fields, *variant.rest)}
    return labels


def _show(request: HttpRequest, policy: Policy, form: BuilderForm, *, status: int = 200, **more: Any) -> HttpResponse:
    actor, at = actor_of(request), clock.now()
    variants = variant_fields(form, _drafts(policy, at=at, actor=actor))
    source = reverse("pages:lab-tree", kwargs={"policy": policy.slug})
    kept = read_whole(form.value("kept_from"), 18)
    scenario = form.value("scenario")
    logs = _log_context(policy, at=at, actor=actor)
    context = {
        "policy": policy.slug,
        "policy_name": policy.name,
        "revision": policy.head_number,
        "form": form,
        "head": head_fields(form),
        "kinds": _kinds(form, kept),
        "kind_problem": form.problems.get("kind", ""),
        "workloads": workload_fields(form, logs["choices"]),
        **logs,
        "log_problem": form.problems.get("log", ""),
        "variants": variants,
        "may_add": form.n_variants < MOST_VARIANTS,
        "kept_from": "" if kept is None else kept,
        "entries": entry_choices(_tree_of_form(form, policy)),
        "entry": form.value("entry"),
        "entry_for": form.value("entry_for") or "v1-",
        "entry_problem": form.problems.get("entry", ""),
        "frame": None if scenario else framed(request, source, lambda: _tree_figure(request, policy)),
        "scenario": scenario,
        "scenario_title": title_of_scenario(scenario),
        "scenario_notes": shipped_scenarios()[scenario] if scenario else "",
        "n_problems": len(form.problems),
        "crumbs": [
            {"label": policy.name, "url": reverse("pages:policy", kwargs={"policy": policy.slug})},
            {"label": _("Lab"), "url": lab_url(policy.slug)},
            {"label": _("New experiment")},
        ],
        **more,
    }
    return render(request, "contrib/lab/builder.html", context, status=status)


def _kinds(form: BuilderForm, kept: int | None) -> list[dict[str, Any]]:
    kinds = [
        (REPLAY, _("The site’s own jobs"), _("replayed from the records, beside what happened")),
        (TRACE, _("An uploaded log"), _("in Standard Workload Format")),
        (SYNTHETIC, _("Drawn jobs"), _("with loads or intervals that you choose")),
    ]
    if form.value("scenario"):  # whose tree no job of the site and of a log belongs to
        kinds = kinds[-1:]
    if kept is not None:
        kinds.insert(0, (KEPT, _("As in experiment %(id)s") % {"id": kept}, _("the same jobs")))
    return [
        {"value": value, "label": label, "hint": hint, "is_chosen": form.value("kind") == value}
        for value, label, hint in kinds
    ]


def _log_context(policy: Policy, *, at: datetime, actor: Actor) -> dict[str, Any]:
    """The logs of the policy: as choices, and those that aren't read with their states."""
    rows = list_traces(policy_slug=policy.slug, at=at, actor=actor)
    return {
        "choices": [(str(row.id), _log_label(row)) for row in rows],
        "has_logs": bool(rows),
        "unread_logs": [row for row in rows if row.state != "read"],
        "is_reading": any(row.state == "waiting" for row in rows),
    }


def _log_label(row: TraceRow) -> str:
    if row.n_jobs is None or row.n_users is None or row.hours is None:
        text = _("%(name)s: refused") if row.state == "refused" else _("%(name)s: is being read")
        if row.waiting is not None:
            text = _("%(name)s: waits to be read")
        return text % {"name": row.name}
    return _("%(name)s: %(jobs)s of %(users)s in %(time)s") % {
        "name": row.name,
        "jobs": counted(row.n_jobs, "job"),
        "users": counted(row.n_users, "user"),
        "time": wait_text(row.hours * 3600),
    }


def _drafts(policy: Policy, *, at: datetime, actor: Actor) -> list[tuple[str, str]]:
    """Change sets that may be tried: one's own drafts, and those that are proposed."""
    change_sets = {
        each.pk: each
        for which in ("mine", "open")
        for each in list_of_change_sets(policy=policy, which=which, actor=actor, at=at)  # type: ignore[arg-type]
    }
    titles = titles_of(list(change_sets.values()), actor=actor, at=at)
    return [(str(pk), f"{pk}: {titles[pk].text}") for pk in change_sets]
