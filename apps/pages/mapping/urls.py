"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.mapping import views as mapping
from apps.pages.mapping.api import attachments
from apps.pages.mapping.api import rules as mappings
from apps.pages.mapping.members import views as members

_NODE = "policy/<slug:policy>/n/<uuid:uid>"
_MAPPINGS = "policy/<slug:policy>/mappings"
_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = [
    path("policy/<slug:policy>/members/<uuid:uid>/", members.members, name="members"),
    path("policy/<slug:policy>/members/<uuid:uid>/rules/", members.rules, name="member-rules"),
    path("policy/<slug:policy>/members/<uuid:uid>/attach/", members.attach, name="member-attach"),
    path("policy/<slug:policy>/members/<uuid:uid>/detach/", members.detach, name="member-detach"),
    path("policy/<slug:policy>/members/<uuid:uid>/claim/", members.decide_claim, name="member-claim"),
    path(f"{_NODE}/_members", members.of_entry, name="entry-members"),
    path(f"{_MAPPINGS}/", mapping.mappings, name="mappings"),
    path(f"{_MAPPINGS}/_unmapped", mapping.unmapped, name="mappings-unmapped"),
    path(f"{_MAPPINGS}/_rules", mapping.rules, name="mappings-rules"),
    path(f"{_MAPPINGS}/rule/", mapping.rule, name="mapping-rule"),
    path(f"{_MAPPINGS}/order/", mapping.order, name="mapping-order"),
    path(f"{_MAPPINGS}/assign/", mapping.assign, name="mapping-assign"),
    path(f"{_MAPPINGS}/detach/", mapping.detach, name="mapping-detach"),
    path(f"{_MAPPINGS}/versions/", mapping.versions, name="mapping-versions"),
    path(f"{_MAPPINGS}/versions/<int:number>/", mapping.version, name="mapping-version"),
]
rest: list[URLPattern] = [
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
]
