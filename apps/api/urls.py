"""Routes of REST v1. Unknown addresses are answered with a problem document."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.urls import URLPattern, path, re_path
from django.views.decorators.csrf import csrf_exempt

from apps.api import errors, removed
from apps.api import schema as schema_view
from apps.api.v1 import (
    adjustments,
    audit,
    charges,
    convergence,
    goals,
    jobs,
    notices,
    packs,
    priorities,
    removal,
    runs,
    search,
    tokens,
)
from apps.api.v1 import algorithm as algorithms
from apps.api.v1.allocations import capacities
from apps.api.v1.allocations import views as allocations
from apps.api.v1.changesets import followup as changeset_followup
from apps.api.v1.changesets import reviews as changeset_reviews
from apps.api.v1.changesets import views as changesets
from apps.api.v1.federation import mounts, overview, published, remotes, subscriptions
from apps.api.v1.mapping import attachments
from apps.api.v1.mapping import rules as mappings
from apps.api.v1.my_priority import comparison, forecasts, submission
from apps.api.v1.my_priority import views as me
from apps.api.v1.policies import documents, grants, revisions, slurm_config, tree
from apps.api.v1.policies import views as policies
from apps.api.v1.schedulers import gateway, setup, shadow, shares
from apps.api.v1.schedulers import views as schedulers
from apps.api.v1.usage import quality, sources
from apps.api.v1.usage import views as usage
from apps.federation.fetch_requests import Kind

_SCHEDULER = "schedulers/<slug:scheduler>"

_SCHEDULERS = [
    path("setup", setup.SetupView.as_view(), name="setup"),
    path("setup/policy", setup.SetupPolicyView.as_view(), name="setup-policy"),
    path("schedulers", schedulers.SchedulerListView.as_view(), name="schedulers"),
    path(_SCHEDULER, schedulers.SchedulerDetailView.as_view(), name="scheduler"),
    path(f"{_SCHEDULER}/orders", schedulers.OrdersView.as_view(), name="scheduler-orders"),
    path(f"{_SCHEDULER}/passes", schedulers.PassListView.as_view(), name="scheduler-passes"),
    path(f"{_SCHEDULER}/queue", schedulers.QueueView.as_view(), name="scheduler-queue"),
    path(f"{_SCHEDULER}/why", schedulers.SchedulerWhyView.as_view(), name="scheduler-why"),
    path(f"{_SCHEDULER}/differences", shadow.DifferencesView.as_view(), name="scheduler-differences"),
    path(f"{_SCHEDULER}/on", shadow.SwitchOnView.as_view(), name="scheduler-on"),
    path(f"{_SCHEDULER}/shares", shares.SharesView.as_view(), name="scheduler-shares"),
    path(f"{_SCHEDULER}/shares/orders", shares.ShareOrderListView.as_view(), name="scheduler-share-orders"),
    path(f"{_SCHEDULER}/shares/orders/<int:order>", shares.ShareOrderView.as_view(), name="scheduler-share-order"),
    path(f"{_SCHEDULER}/shares/take-over", shares.TakeOverView.as_view(), name="scheduler-shares-take-over"),
    path("policies/<slug:policy>/why", schedulers.PolicyWhyView.as_view(), name="why"),
]


_MOUNT = "federation/mounts/<int:mount>"
_SUBSCRIPTION = "federation/subscriptions/<int:subscription>"
_STEPS = ("pause", "resume", "freeze", "unfreeze", "reset-history")


def _shared(kind: Kind, where: str) -> list[URLPattern]:
    """Routes that mounts and subscriptions share."""
    steps = [path(f"{where}/{step}", remotes.step_view(kind, step).as_view(), name=f"{kind}-{step}") for step in _STEPS]
    end = "unmount" if kind == "mount" else "unsubscribe"
    return [
        *steps,
        path(f"{where}/trust-key", remotes.trust_key_view(kind).as_view(), name=f"{kind}-trust-key"),
        path(f"{where}/fetch", remotes.fetch_view(kind).as_view(), name=f"{kind}-fetch"),
        path(f"{where}/fetches", remotes.timeline_view(kind).as_view(), name=f"{kind}-fetches"),
        path(f"{where}/{end}", remotes.end_view(kind).as_view(), name=f"{kind}-{end}"),
    ]


_FEDERATION = [
    path("publications/<str:name>", published.PublicationDocumentView.as_view(), name="publication"),
    path("feeds/<str:name>", published.FeedDocumentView.as_view(), name="feed"),
    path("federation/publications", published.PublicationListView.as_view(), name="published-publications"),
    path("federation/publications/<str:name>", published.PublicationDetailView.as_view(), name="published-publication"),
    path("federation/feeds", published.FeedListView.as_view(), name="published-feeds"),
    path("federation/feeds/<str:name>", published.FeedDetailView.as_view(), name="published-feed"),
    path("federation/peers", overview.PeerListView.as_view(), name="peers"),
    path("federation/grid", overview.GridView.as_view(), name="grid"),
    path("federation/keys", published.KeyListView.as_view(), name="keys"),
    path("federation/mounts", mounts.MountListView.as_view(), name="mounts"),
    path("federation/mounts/preview", mounts.PreviewView.as_view(), name="mount-preview"),
    path(_MOUNT, mounts.MountDetailView.as_view(), name="mount"),
    *_shared("mount", _MOUNT),
    path("federation/subscriptions", subscriptions.SubscriptionListView.as_view(), name="subscriptions"),
    path("federation/subscriptions/preview", subscriptions.FeedPreviewView.as_view(), name="subscription-preview"),
    path(_SUBSCRIPTION, subscriptions.SubscriptionDetailView.as_view(), name="subscription"),
    path(f"{_SUBSCRIPTION}/held-hours", subscriptions.HeldHourListView.as_view(), name="subscription-held-hours"),
    path(
        f"{_SUBSCRIPTION}/agree-capacity",
        subscriptions.CapacityAgreementView.as_view(),
        name="subscription-agree-capacity",
    ),
    *_shared("subscription", _SUBSCRIPTION),
]


app_name = "api"
_POLICY = "policies/<slug:policy>"
_CHANGE_SET = f"{_POLICY}/changesets/<int:change_set>"

urlpatterns = [
    path(f"{_POLICY}/priorities", priorities.SinglePriorityView.as_view(), name="priorities"),
    path(f"{_POLICY}/priorities/lookup", priorities.BulkPriorityView.as_view(), name="priorities-lookup"),
    path(f"{_POLICY}/priorities/all", priorities.AllPrioritiesView.as_view(), name="priorities-all"),
    path(f"{_POLICY}/explain", me.ExplainView.as_view(), name="explain"),
    path(f"{_POLICY}/compare", comparison.CompareView.as_view(), name="compare"),
    path(f"{_POLICY}/recompute", priorities.RecomputeView.as_view(), name="recompute"),
    path(f"{_POLICY}/snapshots", priorities.SnapshotListView.as_view(), name="snapshots"),
    path("me", me.MeView.as_view(), name="me"),
    path(f"{_POLICY}/forecast", forecasts.ForecastView.as_view(), name="forecast"),
    path(f"{_POLICY}/what-if", forecasts.WhatIfView.as_view(), name="what-if"),
    path(f"{_POLICY}/goal", goals.GoalView.as_view(), name="goal"),
    path(f"{_POLICY}/pack", packs.PackView.as_view(), name="pack"),
    path(f"{_POLICY}/pack/links", packs.PackLinksView.as_view(), name="pack-links"),
    path(f"{_POLICY}/pack/links/<int:link>/revoke", packs.PackLinkRevocationView.as_view(), name="pack-link-revoke"),
    path(f"{_POLICY}/sam-case", jobs.SamCaseView.as_view(), name="sam-case"),
    path(f"{_POLICY}/sam", gateway.LedgerView.as_view(), name="sam"),
    path(f"{_POLICY}/sam/decide", gateway.DecisionView.as_view(), name="sam-decide"),
    path(f"{_POLICY}/sam/started", gateway.step_view("start").as_view(), name="sam-started"),
    path(f"{_POLICY}/sam/finished", gateway.step_view("finish").as_view(), name="sam-finished"),
    path(f"{_POLICY}/sam/cancelled", gateway.step_view("cancel").as_view(), name="sam-cancelled"),
    path("me/forecast", forecasts.MyForecastView.as_view(), name="me-forecast"),
    path("me/submit", submission.MySubmitView.as_view(), name="me-submit"),
    path("me/waiting-jobs", submission.MyWaitingJobsView.as_view(), name="me-waiting-jobs"),
    path("me/explain", me.MyExplanationView.as_view(), name="me-explain"),
    path("policies", policies.PolicyListView.as_view(), name="policies"),
    path(_POLICY, policies.PolicyDetailView.as_view(), name="policy"),
    path(f"{_POLICY}/removal", removal.preview_view("policy").as_view(), name="policy-removal"),
    path(f"{_POLICY}/archive", removal.change_view("archive_policy").as_view(), name="policy-archive"),
    path(f"{_POLICY}/restore", removal.change_view("restore_policy").as_view(), name="policy-restore"),
    path(f"{_POLICY}/tree", tree.TreeView.as_view(), name="tree"),
    path(f"{_POLICY}/document", documents.DocumentView.as_view(), name="document"),
    path(f"{_POLICY}/document/against", documents.AgainstView.as_view(), name="document-against"),
    path(f"{_POLICY}/revisions", policies.RevisionListView.as_view(), name="revisions"),
    path(f"{_POLICY}/revisions/<int:revision>/diff", revisions.RevisionDiffView.as_view(), name="revision-diff"),
    path(f"{_POLICY}/entries/<uuid:entry>", revisions.EntryDetailView.as_view(), name="entry"),
    path(f"{_POLICY}/changesets", changesets.ChangeSetListView.as_view(), name="changesets"),
    path(_CHANGE_SET, changesets.ChangeSetDetailView.as_view(), name="changeset"),
    path(f"{_CHANGE_SET}/propose", changeset_reviews.ProposalView.as_view(), name="changeset-propose"),
    path(f"{_CHANGE_SET}/approve", changeset_reviews.ApprovalView.as_view(), name="changeset-approve"),
    path(f"{_CHANGE_SET}/request-changes", changeset_reviews.ReturnView.as_view(), name="changeset-request-changes"),
    path(f"{_CHANGE_SET}/publish", changeset_reviews.PublicationView.as_view(), name="changeset-publish"),
    path(f"{_CHANGE_SET}/withdraw", changeset_reviews.WithdrawalView.as_view(), name="changeset-withdraw"),
    path(f"{_CHANGE_SET}/rebase", changeset_reviews.RebaseView.as_view(), name="changeset-rebase"),
    path(f"{_CHANGE_SET}/revert", changeset_reviews.RevertView.as_view(), name="changeset-revert"),
    path(f"{_CHANGE_SET}/checks", changeset_reviews.ChangeSetCheckListView.as_view(), name="changeset-checks"),
    path(f"{_CHANGE_SET}/effect", changeset_reviews.ChangeSetEffectView.as_view(), name="changeset-effect"),
    path(f"{_CHANGE_SET}/followup", changeset_followup.FollowupView.as_view(), name="changeset-followup"),
    path(f"{_CHANGE_SET}/comments", changeset_reviews.ChangeSetCommentListView.as_view(), name="changeset-comments"),
    path(f"{_POLICY}/grants", grants.GrantListView.as_view(), name="grants"),
    path(f"{_POLICY}/grants/<int:grant>", grants.GrantDetailView.as_view(), name="grant"),
    path(f"{_POLICY}/access", grants.AccessView.as_view(), name="access"),
    path(f"{_POLICY}/allocations", allocations.AllocationListView.as_view(), name="allocations"),
    path(f"{_POLICY}/allocations/table", allocations.AllocationTableView.as_view(), name="allocation-table"),
    path(f"{_POLICY}/allocations/shares", allocations.AllocationSharesView.as_view(), name="allocation-shares"),
    path(f"{_POLICY}/allocations/<uuid:allocation>", allocations.AllocationDetailView.as_view(), name="allocation"),
    path(f"{_POLICY}/capacities", capacities.CapacityListView.as_view(), name="capacities"),
    path(f"{_POLICY}/capacities/<int:capacity>", capacities.CapacityDetailView.as_view(), name="capacity"),
    path(f"{_POLICY}/adjustments", adjustments.AdjustmentListView.as_view(), name="adjustments"),
    path(f"{_POLICY}/mappings", attachments.MappingListView.as_view(), name="mappings"),
    path(f"{_POLICY}/mappings/rules", mappings.MappingRuleListView.as_view(), name="mapping-rules"),
    path(f"{_POLICY}/mappings/rules/<int:position>", mappings.MappingRuleDetailView.as_view(), name="mapping-rule"),
    path(f"{_POLICY}/mappings/trial", mappings.MappingTrialView.as_view(), name="mapping-trial"),
    path(f"{_POLICY}/mappings/unmapped", mappings.UnmappedAccountListView.as_view(), name="mapping-unmapped"),
    path(f"{_POLICY}/mappings/assignments", mappings.AssignmentListView.as_view(), name="mapping-assignments"),
    path(f"{_POLICY}/mappings/versions", mappings.MappingVersionListView.as_view(), name="mapping-versions"),
    path(
        f"{_POLICY}/mappings/versions/<int:version>",
        mappings.MappingVersionDetailView.as_view(),
        name="mapping-version",
    ),
    path(
        f"{_POLICY}/mappings/versions/<int:version>/restore",
        mappings.MappingRestoreView.as_view(),
        name="mapping-restore",
    ),
    path(f"{_POLICY}/mappings/<int:mapping>", attachments.MappingDetailView.as_view(), name="mapping"),
    path(f"{_POLICY}/convergence", convergence.ConvergenceView.as_view(), name="convergence"),
    path(f"{_POLICY}/operators", algorithms.OperatorsView.as_view(), name="policy-operators"),
    path(f"{_POLICY}/charges", charges.ChargeListView.as_view(), name="charges"),
    path(f"{_POLICY}/statements", notices.StatementListView.as_view(), name="statements"),
    *_FEDERATION,
    *_SCHEDULERS,
    path("search", search.SearchView.as_view(), name="search"),
    path("notices", notices.NoticeListView.as_view(), name="notices"),
    path("notices/kinds", notices.NoticeKindListView.as_view(), name="notice-kinds"),
    path("notices/rules", notices.NoticeRuleListView.as_view(), name="notice-rules"),
    path("notices/rules/<int:rule>", notices.NoticeRuleDetailView.as_view(), name="notice-rule"),
    path("notices/<int:notice>", notices.NoticeDetailView.as_view(), name="notice"),
    path("audit", audit.AuditListView.as_view(), name="audit"),
    path("algorithms", algorithms.AlgorithmListView.as_view(), name="algorithms"),
    path("operators", algorithms.OperatorListView.as_view(), name="operators"),
    path("decay-functions", algorithms.DecayFunctionListView.as_view(), name="decay-functions"),
    path("usage/records", usage.RecordListView.as_view(), name="usage-records"),
    path("usage/sources", sources.SourceListView.as_view(), name="usage-sources"),
    path("usage/sources/<slug:source>", sources.SourceDetailView.as_view(), name="usage-source"),
    path("usage/sources/<slug:source>/removal", removal.preview_view("source").as_view(), name="usage-source-removal"),
    path(
        "usage/sources/<slug:source>/archive",
        removal.change_view("archive_source").as_view(),
        name="usage-source-archive",
    ),
    path(
        "usage/sources/<slug:source>/restore",
        removal.change_view("restore_source").as_view(),
        name="usage-source-restore",
    ),
    path("usage/sources/<slug:source>/collect", sources.CollectionView.as_view(), name="usage-source-collect"),
    path("usage/sources/<slug:source>/pause", sources.PauseView.as_view(), name="usage-source-pause"),
    path("usage/sources/<slug:source>/resume", sources.ResumptionView.as_view(), name="usage-source-resume"),
    path("usage/quality", quality.QualityListView.as_view(), name="usage-quality"),
    path("usage/formats", usage.UsageFormatListView.as_view(), name="usage-formats"),
    path("usage/buckets", usage.BucketListView.as_view(), name="usage-buckets"),
    path("slurm-config", slurm_config.SlurmConfigView.as_view(), name="slurm-config"),
    path("jobs/explain", jobs.JobExplanationView.as_view(), name="jobs-explain"),
    path("runs/<int:run>", runs.RunDetailView.as_view(), name="run"),
    path("tokens", tokens.TokenListView.as_view(), name="tokens"),
    path("tokens/<int:token>/rotate", tokens.TokenRotationView.as_view(), name="token-rotate"),
    path("tokens/<int:token>/revoke", tokens.TokenRevocationView.as_view(), name="token-revoke"),
    path("schema", schema_view.schema, name="schema"),
    re_path(r"^docs/?$", schema_view.docs, name="docs"),
    *removed.urlpatterns,
    re_path(r"^.*$", csrf_exempt(login_not_required(errors.not_found)), name="unmatched"),
]
