"""URLs of pages and, with a leading underscore in the last segment, of their fragments."""

from __future__ import annotations

from django.urls import path

from apps.dashboard import (
    adjustments,
    charges,
    decay,
    entry,
    forecast,
    goals,
    packs,
    policy_files,
    quality,
    removal,
    removed,
    terminal,
)
from apps.dashboard.access import views as access
from apps.dashboard.algorithm import views as algorithm
from apps.dashboard.allocations import urls as allocation_urls
from apps.dashboard.audit import views as audit
from apps.dashboard.convergence import views as convergence
from apps.dashboard.drafts import urls as draft_urls
from apps.dashboard.federation import urls as federation_urls
from apps.dashboard.group import views as group
from apps.dashboard.help import documents as help_pages
from apps.dashboard.history import views as history
from apps.dashboard.imports import undo_views as import_undo
from apps.dashboard.imports import views as imports
from apps.dashboard.jobs import views as jobs
from apps.dashboard.live import views as live
from apps.dashboard.mapping import views as mapping
from apps.dashboard.members import views as members
from apps.dashboard.my_priority import views as my_priority
from apps.dashboard.notices import urls as notice_urls
from apps.dashboard.onboarding import views as onboarding
from apps.dashboard.overview import views as overview
from apps.dashboard.requests import views as requests
from apps.dashboard.review import urls as review_urls
from apps.dashboard.schedulers import urls as scheduler_urls
from apps.dashboard.search import views as search
from apps.dashboard.shell import preferences
from apps.dashboard.sign_in import password_views as passwords
from apps.dashboard.sign_in import second_factor_views as second_factor
from apps.dashboard.sign_in import views as sign_in
from apps.dashboard.sources import views as sources
from apps.dashboard.tokens import views as tokens
from apps.dashboard.tree import icicle
from apps.dashboard.tree import views as tree

app_name = "dashboard"
_NODE = "policy/<slug:policy>/n/<uuid:uid>"
_CONVERGENCE = f"{_NODE}/<slug:name>/convergence"
_GROUP = "policy/<slug:policy>/group/<uuid:uid>"
_HISTORY = "policy/<slug:policy>/history"
_MAPPINGS = "policy/<slug:policy>/mappings"
_CHARGES = "policy/<slug:policy>/charges/"
_PACK = "policy/<slug:policy>/pack/<uuid:uid>"
_IMPORT = "usage/imports/<int:import_id>"

urlpatterns = [
    # Overview and first steps
    path("", overview.overview, name="overview"),
    path("_mine", overview.mine, name="overview-mine"),
    path("_verdict", overview.verdict, name="overview-verdict"),
    path("_top", overview.top, name="overview-top"),
    path("_deviation", overview.deviation, name="overview-deviation"),
    path("_pins", overview.pins, name="overview-pins"),
    path("_attention", overview.attention, name="overview-attention"),
    path("_sources", overview.sources, name="overview-sources"),
    path("_recent", overview.recent, name="overview-recent"),
    path("overview/figures/deviation", overview.figure, name="overview-figure"),
    path("overview/figures/deviation.<str:form>", overview.figure, name="overview-figure-form"),
    path("policy/<slug:policy>/pins/<uuid:uid>/", overview.pin, name="pin"),
    path("setup/", onboarding.setup, name="setup"),
    path("setup/_progress", onboarding.progress, name="setup-progress"),
    path("setup/tree/", onboarding.tree, name="setup-tree"),
    path("setup/here/", onboarding.here, name="setup-here"),
    path("setup/log/", onboarding.log, name="setup-log"),
    path("setup/source/", onboarding.source, name="setup-source"),
    path("setup/zone/", onboarding.zone, name="setup-zone"),
    path("setup/confirm/", onboarding.confirm, name="setup-confirm"),
    path("setup/again/", onboarding.again, name="setup-again"),
    path("setup/accounts/", onboarding.accounts, name="setup-accounts"),
    path("setup/publish/", onboarding.publish, name="setup-publish"),
    path("setup/discard/", onboarding.discard, name="setup-discard"),
    # Sign-in
    path("sign-in/", sign_in.sign_in, name="sign-in"),
    path("sign-in/oidc/", sign_in.oidc_start, name="oidc-start"),
    path("sign-in/second-step/", second_factor.step, name="second-step"),
    path("sign-in/reset/", passwords.ask_reset, name="password-reset"),
    path("sign-in/reset/<uidb64>/<token>/", passwords.confirm_reset, name="password-reset-confirm"),
    path("sign-out/", sign_in.sign_out, name="sign-out"),
    path("me/password/", passwords.own, name="password"),
    path("me/password/sessions/", passwords.end_sessions, name="sessions-end"),
    path("me/second-factor/", second_factor.own, name="second-factor"),
    path("theme/", preferences.theme, name="theme"),
    # My priority
    path("me/priority/", my_priority.my_priority, name="my-priority"),
    path("me/priority/_why", my_priority.why, name="my-priority-why"),
    path("me/priority/_submit", my_priority.submit, name="my-submit"),
    path("me/priority/figures/<slug:figure>", my_priority.figure, name="my-figure"),
    path("me/priority/figures/<slug:figure>.<str:form>", my_priority.figure),
    path("me/accounts/claim/", my_priority.claim, name="claim-account"),
    path("me/accounts/withdraw/", my_priority.withdraw_claim, name="withdraw-claim"),
    # A policy and its settings
    path("policy/<slug:policy>/", tree.tree, name="policy"),
    path("policy/<slug:policy>/live", live.live, name="live"),
    path("policy/<slug:policy>/icicle/", icicle.icicle, name="icicle"),
    path("policy/<slug:policy>/icicle/figures/tree", icicle.figure, name="tree-figure"),
    path("policy/<slug:policy>/icicle/figures/tree.<str:form>", icicle.figure),
    path("policy/<slug:policy>/selection/", tree.act, name="policy-selection"),
    path("policy/<slug:policy>/tree.csv", tree.table, name="policy-csv"),
    path("policy/<slug:policy>/_rows", tree.rows, name="policy-rows"),
    path("policy/<slug:policy>/_current", tree.current, name="policy-current"),
    path("policy/<slug:policy>/_search", tree.search, name="policy-search"),
    path("policy/<slug:policy>/_panel", tree.panel, name="policy-panel"),
    path("policy/<slug:policy>/algorithm/", algorithm.algorithm, name="algorithm"),
    path("policy/<slug:policy>/algorithm/compare/", algorithm.compare, name="compare"),
    path("policy/<slug:policy>/operators/", algorithm.operators, name="operators"),
    path("policy/<slug:policy>/operators/figures/<slug:figure>", algorithm.figure, name="operators-figure"),
    path("policy/<slug:policy>/operators/figures/<slug:figure>.<str:form>", algorithm.figure),
    path("policy/<slug:policy>/decay/", decay.decay, name="decay"),
    path("policy/<slug:policy>/algorithm/figures/operator", algorithm.profile, name="algorithm-operator"),
    path("policy/<slug:policy>/algorithm/figures/operator.<str:form>", algorithm.profile),
    path("policy/<slug:policy>/decay/figures/decay", decay.figure, name="decay-figure"),
    path("policy/<slug:policy>/decay/figures/decay.<str:form>", decay.figure),
    path("policy/<slug:policy>/files/", policy_files.files, name="policy-files"),
    path("policy/<slug:policy>/files/<int:change_set>/", policy_files.decide, name="policy-file"),
    path("policy/<slug:policy>/files/against/", policy_files.against, name="policy-against"),
    path("policy/<slug:policy>/files/<slug:format>/", policy_files.download, name="policy-download"),
    # Rights, members and adjustments
    path("policy/<slug:policy>/access/", access.overview, name="access"),
    path("policy/<slug:policy>/access/_grants", access.grants, name="access-grants"),
    path("policy/<slug:policy>/access/_why", access.why, name="access-why"),
    path("policy/<slug:policy>/access/assign/", access.assign, name="access-assign"),
    path("policy/<slug:policy>/access/extend/", access.extend, name="access-extend"),
    path("policy/<slug:policy>/access/<int:grant_id>/", access.grant, name="grant"),
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
    # An entry
    path(f"{_NODE}/", entry.find, name="entry-find"),
    path(f"{_NODE}/_preview", entry.preview, name="shares-preview"),
    path(f"{_NODE}/_shares", entry.change_shares, name="shares"),
    path(f"{_NODE}/<slug:name>/", entry.entry, name="entry"),
    # Convergence
    path("policy/<slug:policy>/convergence/", convergence.convergence, name="convergence"),
    path("policy/<slug:policy>/convergence/_panels", convergence.panels, name="convergence-panels"),
    path("policy/<slug:policy>/convergence/_building", convergence.building, name="convergence-building"),
    path("policy/<slug:policy>/convergence/days.csv", convergence.days_csv, name="convergence-days"),
    path("policy/<slug:policy>/convergence/figures/<slug:figure>", convergence.figure, name="convergence-figure"),
    path("policy/<slug:policy>/convergence/figures/<slug:figure>.<str:form>", convergence.figure),
    path(f"{_CONVERGENCE}/figures/<slug:figure>", convergence.figure, name="entry-convergence-figure"),
    path(f"{_CONVERGENCE}/figures/<slug:figure>.<str:form>", convergence.figure),
    path(f"{_CONVERGENCE}/", convergence.convergence, name="entry-convergence"),
    path(f"{_CONVERGENCE}/_over-time", convergence.over_time, name="entry-over-time"),
    path(f"{_CONVERGENCE}/_panels", convergence.panels, name="entry-convergence-panels"),
    path(f"{_CONVERGENCE}/days.csv", convergence.days_csv, name="entry-convergence-days"),
    # Jobs, the client for terminals and tokens
    path("jobs/", jobs.jobs, name="jobs"),
    path("jobs/_result", jobs.result, name="jobs-result"),
    path("jobs/calculator/", jobs.calculator, name="jobs-calculator"),
    path("jobs/calculator/_result", jobs.calculator_result, name="jobs-calculator-result"),
    path("fairshare", terminal.download, name="terminal"),
    path("me/tokens/", tokens.tokens, name="tokens"),
    path("me/tokens/<int:token_id>/rotate/", tokens.rotate, name="token-rotate"),
    path("me/tokens/<int:token_id>/revoke/", tokens.revoke, name="token-revoke"),
    # Usage
    path("usage/figures/coverage", sources.coverage, name="coverage"),
    path("usage/figures/coverage.<str:form>", sources.coverage),
    path("usage/sources/", sources.sources, name="sources"),
    path("usage/sources/new/", sources.new, name="source-new"),
    path("usage/sources/<slug:slug>/", sources.source, name="source"),
    path("usage/sources/<slug:slug>/settings/", sources.settings, name="source-settings"),
    path("usage/sources/<slug:slug>/remove/", removal.source, name="source-remove"),
    path("usage/sources/<slug:slug>/pause/", sources.pause, name="source-pause"),
    path("usage/sources/<slug:slug>/resume/", sources.resume, name="source-resume"),
    path("usage/sources/<slug:slug>/collect/", sources.collect, name="source-collect"),
    path("usage/sources/<slug:slug>/_collecting", sources.collecting, name="source-collecting"),
    path("usage/quality/", quality.data_quality, name="data-quality"),
    path("usage/quality/changed.csv", quality.changed_csv, name="data-quality-changed"),
    path("usage/import/", imports.upload, name="upload"),
    path(f"{_IMPORT}/", imports.import_, name="import"),
    path(f"{_IMPORT}/_progress", imports.import_progress, name="import-progress"),
    path(f"{_IMPORT}/_rejected", imports.import_rejected, name="import-rejected"),
    path(f"{_IMPORT}/rejected.csv", imports.import_rejected_csv, name="import-rejected-csv"),
    path(f"{_IMPORT}/cancel/", imports.import_cancel, name="import-cancel"),
    path(f"{_IMPORT}/confirm/", imports.import_confirm, name="import-confirm"),
    path(f"{_IMPORT}/undo/", import_undo.import_undo, name="import-undo"),
    path("usage/overlaps/", import_undo.overlaps, name="overlaps"),
    path("usage/overlaps/decide/", import_undo.overlap_decide, name="overlap-decide"),
    # My group and the inbox
    path("start/", group.start, name="start"),
    path("group/", group.my_group, name="my-group"),
    path(f"{_GROUP}/", group.group, name="group"),
    path(f"{_GROUP}/_form", group.form, name="group-form"),
    path(f"{_GROUP}/_effect", group.effect, name="group-effect"),
    path(f"{_GROUP}/_ask_effect", group.ask_effect, name="group-ask-effect"),
    path(f"{_GROUP}/ask/", group.ask, name="group-ask"),
    path(f"{_GROUP}/undo/", group.undo, name="group-undo"),
    path("inbox/", requests.inbox, name="inbox"),
    path("inbox/_news", requests.news, name="inbox-news"),
    path("inbox/<int:change_set>/_ranks", requests.ranks, name="request-ranks"),
    path("inbox/<int:change_set>/answer/", requests.answer, name="request-answer"),
    # History and the audit log
    path("policy/<slug:policy>/remove/", removal.policy, name="policy-remove"),
    path(f"{_HISTORY}/", history.history, name="history"),
    path(f"{_HISTORY}/_rows", history.rows, name="history-rows"),
    path(f"{_HISTORY}/diff/", history.diff, name="diff"),
    path(f"{_HISTORY}/_diff", history.diff_part, name="diff-part"),
    path(f"{_HISTORY}/<int:revision>/undo/", history.undo, name="undo-revision"),
    path(f"{_HISTORY}/<int:revision>/restore/", history.restore, name="restore-revision"),
    path(f"{_HISTORY}/entry/<uuid:uid>/", history.entry, name="entry-history"),
    path("audit/", audit.audit, name="audit"),
    path("audit/_rows", audit.rows, name="audit-rows"),
    path("audit/_event", audit.event, name="audit-event"),
    path("audit/export.jsonl", audit.export_lines, name="audit-lines"),
    path("audit/export.csv", audit.export_table, name="audit-table"),
    # Mapping and charges
    path(f"{_MAPPINGS}/", mapping.mappings, name="mappings"),
    path(f"{_MAPPINGS}/_unmapped", mapping.unmapped, name="mappings-unmapped"),
    path(f"{_MAPPINGS}/_rules", mapping.rules, name="mappings-rules"),
    path(f"{_MAPPINGS}/rule/", mapping.rule, name="mapping-rule"),
    path(f"{_MAPPINGS}/order/", mapping.order, name="mapping-order"),
    path(f"{_MAPPINGS}/assign/", mapping.assign, name="mapping-assign"),
    path(f"{_MAPPINGS}/detach/", mapping.detach, name="mapping-detach"),
    path(f"{_MAPPINGS}/versions/", mapping.versions, name="mapping-versions"),
    path(f"{_MAPPINGS}/versions/<int:number>/", mapping.version, name="mapping-version"),
    path(_CHARGES, charges.charges, name="charges"),
    path(f"{_CHARGES}_rows", charges.rows, name="charges-rows"),
    path(f"{_CHARGES}table.csv", charges.table, name="charges-table"),
    path(f"{_CHARGES}<int:record>/", charges.charge, name="charge"),
    # Forecasts, goals and packs
    path("me/priority/_forecast", forecast.forecast, name="my-forecast"),
    path("me/priority/_whatif", forecast.what_if, name="my-what-if"),
    path("policy/<slug:policy>/goal/<uuid:uid>/", goals.goal, name="goal"),
    path(f"{_PACK}/", packs.pack, name="pack"),
    path(f"{_PACK}/pack.<str:form>", packs.download, name="pack-file"),
    path("shared/packs/<str:token>/", packs.shared, name="shared-pack"),
    path("shared/packs/<str:token>/pack.<str:form>", packs.shared_file, name="shared-pack-file"),
    # Search and guides
    path("search/", search.search, name="search"),
    path("search/_results", search.results, name="search-results"),
    path("keys/", search.keys, name="keys"),
    path("help/", help_pages.show_help, name="help"),
    path("help/<slug:name>/", help_pages.show_help, name="help-page"),
]
# Before the entry page, which matches any name.
urlpatterns = notice_urls.urlpatterns + removed.urlpatterns + urlpatterns
urlpatterns += draft_urls.urlpatterns + review_urls.urlpatterns + allocation_urls.urlpatterns
urlpatterns += federation_urls.urlpatterns + scheduler_urls.urlpatterns
