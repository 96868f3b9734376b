"""Routes: pages, REST and health, collected from the slices and the installed plug-ins."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, include, path

from apps.core.plugins import route_modules
from apps.pages.access import urls as access
from apps.pages.algorithm import urls as algorithm
from apps.pages.audit import urls as audit
from apps.pages.changes import urls as changes
from apps.pages.charges import urls as charges
from apps.pages.convergence import urls as convergence
from apps.pages.entry import urls as entry
from apps.pages.federation import urls as federation
from apps.pages.group import urls as group
from apps.pages.help import urls as help_pages
from apps.pages.mapping import urls as mapping
from apps.pages.monitoring import urls as monitoring
from apps.pages.my_priority import urls as my_priority
from apps.pages.overview import urls as overview
from apps.pages.policies import urls as policies
from apps.pages.priorities import urls as priorities
from apps.pages.sign_in import urls as sign_in
from apps.pages.sign_in.oidc import CALLBACK
from apps.pages.sign_in.views import admin_sign_in, oidc_callback
from apps.pages.sources import urls as sources
from apps.pages.tokens import urls as tokens
from apps.pages.tree import urls as tree
from apps.web import urls as frame
from apps.web.rest import urls as rest

_SLICES = (
    *(overview, tree, changes, access, my_priority, group, convergence, sources, mapping, charges, algorithm),
    *(policies, priorities, federation, audit, tokens, sign_in, help_pages, frame),
    entry,  # last: its page matches any name
)
_PLUGINS = tuple(route_modules())
PAGES: list[URLPattern] = [
    *(route for module in (*_PLUGINS, *_SLICES) for route in module.urlpatterns),
]
REST: list[URLPattern] = [
    *(route for module in (*_SLICES, *_PLUGINS) for route in module.rest),
    *rest.urlpatterns,  # last: unknown addresses
]

urlpatterns = [
    path("admin/login/", admin_sign_in),  # before the one of the administration itself
    path("admin/", admin.site.urls),
    path("api/v1/", include((REST, "api"))),
    path("", include(monitoring)),
    path("sign-in/oidc/<slug:provider_id>/callback/", oidc_callback, name=CALLBACK),  # allauth knows it by that name
    path("", include((PAGES, "pages"))),
]
handler400 = "fairshare_web.errors.bad_request"
handler403 = "fairshare_web.errors.forbidden"
handler404 = "fairshare_web.errors.not_found"
handler500 = "fairshare_web.errors.server_error"
