"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.changes.api import followup as changeset_followup
from apps.pages.changes.api import reviews as changeset_reviews
from apps.pages.changes.api import revisions
from apps.pages.changes.api import views as changesets
from apps.pages.changes.drafts import urls as draft_urls
from apps.pages.changes.history import views as history
from apps.pages.changes.review import urls as review_urls

_HISTORY = "policy/<slug:policy>/history"
_POLICY = "policies/<slug:policy>"
_CHANGE_SET = f"{_POLICY}/changesets/<int:change_set>"


urlpatterns: list[URLPattern] = [
    path(f"{_HISTORY}/", history.history, name="history"),
    path(f"{_HISTORY}/_rows", history.rows, name="history-rows"),
    path(f"{_HISTORY}/diff/", history.diff, name="diff"),
    path(f"{_HISTORY}/_diff", history.diff_part, name="diff-part"),
    path(f"{_HISTORY}/<int:revision>/undo/", history.undo, name="undo-revision"),
    path(f"{_HISTORY}/<int:revision>/restore/", history.restore, name="restore-revision"),
    path(f"{_HISTORY}/entry/<uuid:uid>/", history.entry, name="entry-history"),
]
urlpatterns += draft_urls.urlpatterns + review_urls.urlpatterns
rest: list[URLPattern] = [
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
    path(f"{_CHANGE_SET}/back-test", changeset_reviews.ChangeSetBackTestView.as_view(), name="changeset-back-test"),
    path(f"{_CHANGE_SET}/followup", changeset_followup.FollowupView.as_view(), name="changeset-followup"),
    path(f"{_CHANGE_SET}/comments", changeset_reviews.ChangeSetCommentListView.as_view(), name="changeset-comments"),
]
