"""Pages and, one underscore below each, the fragments they are made of."""

from __future__ import annotations

from django.urls import path

from apps.dashboard import allocation_urls, draft_urls, group_urls, history_urls, mapping_urls, review_urls
from apps.dashboard.views import (
    access,
    adjustments,
    aging,
    algorithm,
    entry,
    grants,
    jobs,
    me,
    members,
    overview,
    policy,
    policy_files,
    preferences,
    quality,
    sign_in,
    tokens,
    usage,
)

app_name = "dashboard"
_NODE = "policy/<slug:policy>/n/<uuid:uid>"
_IMPORT = "usage/imports/<int:import_id>"

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("_attention", overview.attention, name="overview-attention"),
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-in/oidc/", sign_in.oidc_start, name="oidc-start"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("theme/", preferences.theme, name="theme"),
    path("me/priority/", me.my_priority, name="my-priority"),
    path("me/accounts/claim/", me.claim, name="claim-account"),
    path("me/accounts/take-back/", me.take_back, name="take-back-claim"),
    path("policy/<slug:policy>/", policy.tree, name="policy"),
    path("policy/<slug:policy>/_rows", policy.rows, name="policy-rows"),
    path("policy/<slug:policy>/_search", policy.search, name="policy-search"),
    path("policy/<slug:policy>/_panel", policy.panel, name="policy-panel"),
    path("policy/<slug:policy>/algorithm/", algorithm.algorithm, name="algorithm"),
    path("policy/<slug:policy>/algorithm/compare/", algorithm.compare, name="compare"),
    path("policy/<slug:policy>/aging/", aging.aging, name="aging"),
    path("policy/<slug:policy>/files/", policy_files.files, name="policy-files"),
    path("policy/<slug:policy>/files/<int:change_set>/", policy_files.decide, name="policy-file"),
    path("policy/<slug:policy>/files/<slug:format>/", policy_files.download, name="policy-download"),
    path("policy/<slug:policy>/access/", access.overview, name="access"),
    path("policy/<slug:policy>/access/_grants", access.grants, name="access-grants"),
    path("policy/<slug:policy>/access/_why", access.why, name="access-why"),
    path("policy/<slug:policy>/access/give/", grants.give, name="access-give"),
    path("policy/<slug:policy>/access/extend/", grants.extend, name="access-extend"),
    path("policy/<slug:policy>/access/<int:grant_id>/", grants.grant, name="grant"),
    path(f"{_NODE}/_access", access.of_entry, name="entry-access"),
    path("policy/<slug:policy>/members/<uuid:uid>/", members.members, name="members"),
    path("policy/<slug:policy>/members/<uuid:uid>/rules/", members.rules, name="member-rules"),
    path("policy/<slug:policy>/members/<uuid:uid>/attach/", members.attach, name="member-attach"),
    path("policy/<slug:policy>/members/<uuid:uid>/detach/", members.detach, name="member-detach"),
    path("policy/<slug:policy>/members/<uuid:uid>/claim/", members.decide_claim, name="member-claim"),
    path("policy/<slug:policy>/adjustments/<uuid:uid>/", adjustments.adjustments, name="adjustments"),
    path("policy/<slug:policy>/adjustments/<uuid:uid>/_preview", adjustments.preview, name="adjustment-preview"),
    path(f"{_NODE}/_members", members.of_entry, name="entry-members"),
    path(f"{_NODE}/_adjustments", adjustments.of_entry, name="entry-adjustments"),
    path(f"{_NODE}/", entry.find, name="entry-find"),
    path(f"{_NODE}/_preview", entry.preview, name="shares-preview"),
    path(f"{_NODE}/_shares", entry.change_shares, name="shares"),
    path(f"{_NODE}/<slug:name>/", entry.entry, name="entry"),
    path("jobs/", jobs.jobs, name="jobs"),
    path("jobs/_result", jobs.result, name="jobs-result"),
    path("me/tokens/", tokens.tokens, name="tokens"),
    path("me/tokens/<int:token_id>/rotate/", tokens.rotate, name="token-rotate"),
    path("me/tokens/<int:token_id>/revoke/", tokens.revoke, name="token-revoke"),
    path("usage/sources/", usage.sources, name="sources"),
    path("usage/sources/<slug:slug>/", usage.source, name="source"),
    path("usage/quality/", quality.data_quality, name="data-quality"),
    path("usage/quality/changed.csv", quality.changed_csv, name="data-quality-changed"),
    path("usage/import/", usage.upload, name="upload"),
    path(f"{_IMPORT}/", usage.import_, name="import"),
    path(f"{_IMPORT}/_progress", usage.import_progress, name="import-progress"),
    path(f"{_IMPORT}/_rejected", usage.import_rejected, name="import-rejected"),
    path(f"{_IMPORT}/rejected.csv", usage.import_rejected_csv, name="import-rejected-csv"),
    path(f"{_IMPORT}/cancel/", usage.import_cancel, name="import-cancel"),
    path(f"{_IMPORT}/confirm/", usage.import_confirm, name="import-confirm"),
]
urlpatterns += draft_urls.urlpatterns + review_urls.urlpatterns + group_urls.urlpatterns + history_urls.urlpatterns
urlpatterns += allocation_urls.urlpatterns + mapping_urls.urlpatterns
