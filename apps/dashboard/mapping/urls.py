"""Pages and fragments of the mapping: which account counts where."""

from __future__ import annotations

from django.urls import path

from apps.dashboard.mapping import views as mappings

_ALL = "policy/<slug:policy>/mappings"

urlpatterns = [
    path(f"{_ALL}/", mappings.mappings, name="mappings"),
    path(f"{_ALL}/_unmapped", mappings.unmapped, name="mappings-unmapped"),
    path(f"{_ALL}/_rules", mappings.rules, name="mappings-rules"),
    path(f"{_ALL}/rule/", mappings.rule, name="mapping-rule"),
    path(f"{_ALL}/order/", mappings.order, name="mapping-order"),
    path(f"{_ALL}/assign/", mappings.assign, name="mapping-assign"),
    path(f"{_ALL}/let-go/", mappings.let_go, name="mapping-let-go"),
    path(f"{_ALL}/versions/", mappings.versions, name="mapping-versions"),
    path(f"{_ALL}/versions/<int:number>/", mappings.version, name="mapping-version"),
]
