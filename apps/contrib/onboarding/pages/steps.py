"""Template contexts of the set-up: its steps, the tree, the log, the comparison, and the scheduler's own sshare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agent import site_commands
from apps.accounts.actor import Actor
from apps.contrib.onboarding.first_policy_draft import (
    LogState,
    get_first_policy_draft,
    log_state,
    proposed_settings,
    require_setup,
    tree_of,
)
from apps.contrib.onboarding.models import FirstPolicyDraft
from apps.contrib.onboarding.pages import presenters as setup_presenters
from apps.contrib.onboarding.pages.forms import (
    FirstPolicyForm,
    LogForm,
    RestSiteForm,
    TreeForm,
    ZoneForm,
    algorithms_for,
    typed_days,
)
from apps.contrib.onboarding.shadow_setup import can_collect, kind_of
from apps.contrib.onboarding.slurm_outputs import can_read_here, can_read_log_here
from apps.contrib.onboarding.sshare_comparison import SshareComparison, compare_with_sshare
from apps.contrib.onboarding.tree_vs_usage import TreeVsUsage, compare_with_log
from apps.contrib.onboarding.usage_reasons import reason_text
from apps.contrib.schedulers.pages import shadow
from apps.core import clock
from apps.core.errors import DomainError
from apps.pages.sources.imports.reports import import_report, reasons, size
from apps.policies.selectors import list_policies
from apps.policies.tree.columns import TreeColumns
from apps.priorities.sentences import numbers
from apps.usage import selectors as usage
from apps.usage.import_notes import lost_lines
from apps.usage.models import Import, RejectedLine
from apps.usage.parsers.sacct_header import COMMAND
from apps.web.shell import presentation
from apps.web.shell.requests import actor_of

TREE, LOG, AGAINST = "tree", "log", "against"
_PATHS = 1_000
_REJECTED = 5
_DAY_S = 86_400
# Commands of schedulers beside Slurm, by their names.
_OTHER_TREES = {"Grid Engine": "qconf -sstree > tree.txt", "HTCondor": "condor_config_val -dump > pool.txt"}
_OTHER_LOGS = {"HTCondor": "condor_history -long > history.txt"}
# Explanation of each offered algorithm for administrators of a scheduler.
_MEANINGS = {
    "slurm-fair-tree": lambda: _("Fair tree: the numbers of sshare, explained. Can be changed later."),
    "aequus": lambda: _("Relative to each share, level by level; also across sites. Can be changed later."),
    "gridwide": lambda: _("By the distance in points, level by level."),
    "slurm-classic": lambda: _("Slurm’s classic formula, as with PriorityFlags=NO_FAIR_TREE."),
    "slurm-depth-oblivious": lambda: _("As with PriorityFlags=DEPTH_OBLIVIOUS."),
}


@dataclass(frozen=True, slots=True)
class Step:
    title: str
    text: str
    state: str  # done, current, later


@dataclass
class Submitted:
    """Forms that were submitted and are shown again, with their errors."""

    tree: TreeForm | None = None
    rest_site: RestSiteForm | None = None
    log: LogForm | None = None
    zone: ZoneForm | None = None
    policy: FirstPolicyForm | None = None
    accounts: DomainError | None = None
    refusal: DomainError | None = None


def show(request: HttpRequest, submitted: Submitted | None = None, *, status: int = 200) -> HttpResponse:
    """Render the current step; `?step=tree` shows the first one again."""
    actor, submitted = actor_of(request), submitted or Submitted()
    require_setup(actor)
    beginning = get_first_policy_draft(actor=actor)
    context = setup_context(request, beginning, submitted, actor)
    template = "contrib/onboarding/setup.html"
    return render(request, template, context, status=status)


def setup_context(
    request: HttpRequest, beginning: FirstPolicyDraft | None, submitted: Submitted, actor: Actor
) -> dict[str, Any]:
    state = LogState.NONE if beginning is None else log_state(beginning)
    back = beginning is not None and request.GET.get("step") == TREE
    here = TREE if beginning is None or back or submitted.tree else AGAINST if state is LogState.READY else LOG
    tree = None if beginning is None else tree_of(beginning)
    context: dict[str, Any] = {
        "beginning": beginning,
        "here": here,
        "state": str(state),
        "submitted": submitted,
        "others": list_policies(actor=actor),
        "crumbs": [{"label": _("First steps")}],
        "page_url": reverse("pages:setup"),
    }
    against = None
    if beginning is not None and tree is not None:
        context |= {
            "facts": [
                *setup_presenters.tree_facts(tree, beginning.facts.get("ignored", [])),
                *setup_presenters.config_facts(beginning.facts.get("slurm_config")),
            ],
            "tree_text": setup_presenters.tree_text(tree),
        }
        if state is LogState.READY:
            chosen = (
                submitted.policy.settings
                if submitted.policy and submitted.policy.is_valid()
                else proposed_settings(beginning)
            )
            zone = ZoneInfo(settings.TIME_ZONE)
            against = compare_with_log(beginning, zone=zone, settings=chosen, at=clock.now(), actor=actor)
    context["steps"] = _steps(beginning, state, here, context.get("tree_text", ""))
    if here == TREE:
        context |= {"form": submitted.tree or TreeForm(), "limit": 64, "reads_here": can_read_here()}
        context["rest_form"] = submitted.rest_site or RestSiteForm(initial={"source_name": "slurm"})
        context |= {"commands": site_commands.script(), "who": _(site_commands.WHO)}
        context |= {"more_commands": _OTHER_TREES}
    elif here == LOG and beginning is not None:
        context |= _log_context(beginning, state, submitted, actor)
    elif against is not None and beginning is not None and tree is not None:
        context |= _against_context(beginning, tree, against, submitted)
        compared = compare_with_sshare(beginning, settings=against.settings, at=clock.now(), actor=actor)
        context["sshare"] = None if compared is None else sshare_context(compared)
    return context


def log_context(request: HttpRequest, beginning: FirstPolicyDraft) -> dict[str, Any]:
    """Context of the fragment that is polled while the log is read."""
    state = log_state(beginning)
    return {"beginning": beginning, "state": str(state), **_report(_work_of(beginning))}


def _steps(beginning: FirstPolicyDraft | None, state: LogState, here: str, tree_text: str) -> list[Step]:
    """Titles of the steps, with what was done or has to be done."""
    order = [TREE, LOG, AGAINST]
    at = order.index(here)
    has_log = state is LogState.READY
    log_text = _log_text(beginning) if has_log and beginning is not None else _("sacct -P or another log")
    titles = [
        (_("Your tree"), tree_text or _("Accounts dump of your scheduler"), beginning is not None),
        (_("Accounting log"), log_text, has_log),
        (_("Tree and last 90 days"), _("Check and correct"), False),
        (_("First policy"), _("Publish revision 1"), False),
    ]
    return [
        Step(title, text, "current" if n == at else "done" if is_done else "later")
        for n, (title, text, is_done) in enumerate(titles)
    ]


def _log_text(beginning: FirstPolicyDraft) -> str:
    if beginning.usage_import is None:
        return _("from %(name)s") % {"name": beginning.source.name if beginning.source else ""}
    counts = beginning.usage_import.run.counts
    n = int(counts.get("new", 0)) + int(counts.get("duplicate", 0))
    return ngettext("%(n)s job read", "%(n)s jobs read", n) % {"n": numbers.count(n)}


def _work_of(beginning: FirstPolicyDraft) -> Import | None:
    return beginning.usage_import or beginning.dry_run


def _report(work: Import | None) -> dict[str, Any]:
    if work is None:
        return {"report": None, "import": None}
    report = import_report(work, clock.now())
    rejected = RejectedLine.objects.filter(usage_import=work).order_by("line")[:_REJECTED] if report.n_rejected else []
    by_code = work.run.result.get("by_code", {})
    lost = lost_lines(work.run.result.get("notes", {}))
    return {"report": report, "import": work, "rejected": list(rejected), "reasons": reasons(by_code), "lost": lost}


def _log_context(beginning: FirstPolicyDraft, state: LogState, submitted: Submitted, actor: Actor) -> dict[str, Any]:
    name = slugify(beginning.facts.get("policy", "")) or "cluster"
    limit = int(settings.FAIRSHARE_UPLOAD_BYTES)
    work = _work_of(beginning)
    sources = [source for source in usage.list_sources(actor=actor) if source.last_record_end_at is not None]
    return {
        "log_form": submitted.log or LogForm(initial={"source_name": name}),
        "zone_form": submitted.zone or ZoneForm(initial={"time_zone": settings.TIME_ZONE}),
        "zones": sorted(available_timezones()),
        "sources": sources,
        "command": COMMAND.replace("-X", "-X -S now-90days"),
        "more_commands": _OTHER_LOGS,
        "limit_bytes": limit,
        "limit": size(limit),
        "reads_here": can_read_log_here(),
        **_report(work),
    }


def collects_here(beginning: FirstPolicyDraft) -> bool:
    """Whether the source of the log can be collected with sacct on this host."""
    return can_collect(beginning) and can_read_log_here()


def _against_context(
    beginning: FirstPolicyDraft, tree: TreeColumns, against: TreeVsUsage, submitted: Submitted
) -> dict[str, Any]:
    rows, scale = setup_presenters.group_lines(against)
    allowed = algorithms_for(has_inherit=bool(tree.inherit.any()))
    return {
        "against": against,
        "settings_of_source": None
        if beginning.source is None or not can_collect(beginning) or can_read_log_here()
        else reverse("pages:source-settings", kwargs={"slug": beginning.source.slug}) + "?kind=command",
        "verdict": setup_presenters.verdict(against),
        "story": setup_presenters.extremes(against),
        "span": setup_presenters.span_text(against),
        "groups": rows,
        "n_more": len(against.ledger.top) - len(rows),
        "scale": scale,
        "unplaced": setup_presenters.unplaced_lines(against),
        "placed": [(*setup_presenters.account_text(names), path) for names, path in against.placed],
        "unplaced_part": numbers.percent(against.unplaced_s / against.used_s if against.used_s else 0.0),
        "paths": [tree.path(i) for i in range(1, min(len(tree), _PATHS + 1)) if not tree.is_reserve[i]],
        "time_in_band": against.ledger.time_in_band,
        "deviation": None if against.ledger.mean_deviation is None else numbers.points(against.ledger.mean_deviation),
        "half_life": presentation.duration(against.half_life_days * _DAY_S),
        "policy_form": submitted.policy or _first_form(beginning, allowed),
        "algorithms": [(name, label, _MEANINGS[name]()) for name, label in allowed],
        **_report(_work_of(beginning)),
    }


def _first_form(beginning: FirstPolicyDraft, allowed: list[tuple[str, str]]) -> FirstPolicyForm:
    """Form with the proposed settings."""
    policy_settings = proposed_settings(beginning)
    names = [name for name, _label in allowed]
    wanted = str(policy_settings.algorithm["name"])
    initial: dict[str, Any] = {
        "name": beginning.facts.get("policy", "") or (beginning.source.name if beginning.source else ""),
        "algorithm": wanted if wanted in names else next(iter(names), ""),
        "half_life_days": "0"
        if policy_settings.window["aging"] == "none"
        else typed_days(policy_settings.window["half_life_s"]),
    }
    if can_collect(beginning):
        initial["collects"] = True
    has_scheduler = kind_of(beginning) is not None
    if has_scheduler:
        of_source = beginning.source.slug if beginning.source else ""
        initial["scheduler"] = slugify(beginning.facts.get("policy", "")) or of_source
    return FirstPolicyForm(
        initial=initial,
        allowed=allowed,
        policy_settings=policy_settings,
        has_scheduler=has_scheduler,
        can_collect=collects_here(beginning),
    )


def sshare_context(comparison: SshareComparison) -> dict[str, Any]:
    usage = comparison.usage
    return {
        "headline": shadow.headline(comparison.factors),
        "n": len(comparison.factors.differences),
        "n_equal": comparison.factors.n_equal,
        "n_unknown": comparison.factors.n_unknown,
        "lines": shadow.difference_lines(comparison.factors),
        "usage": _usage_text(comparison),
        "n_usage": len(usage.differences),
        "usage_lines": _usage_lines(comparison),
        "as_of": comparison.as_of,
    }


def _usage_text(comparison: SshareComparison) -> str:
    """Sums of usage in the log and in sshare, and their ratio if it is the same for all users."""
    usage = comparison.usage
    values = {"ours": numbers.count(usage.ours), "theirs": numbers.count(usage.theirs)}
    text = _("Usage in %(unit)s: %(ours)s from the log, %(theirs)s in sshare.")
    text %= values | {"unit": "billing-s" if comparison.unit == "billing_s" else "core-s"}
    if usage.quotient is not None:
        text += " " + _("Every user’s is %(quotient)s times sshare’s.") % {
            "quotient": numbers.number(usage.quotient, 4)
        }
    return text


def _usage_lines(comparison: SshareComparison) -> list[shadow.DifferenceLine]:
    return [
        shadow.DifferenceLine(row, shadow.signed(row.difference, 0), reason_text(row, comparison.unit))
        for row in comparison.usage.rows[: shadow.MOST_SHADOW_ROWS]
        if row.reason != "same"
    ]
