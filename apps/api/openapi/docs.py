"""The browsable description of the API."""

from __future__ import annotations

from csp.decorators import csp_update
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe


@login_not_required
@require_safe
@csp_update({"img-src": ["data:"]})  # Swagger UI's own style sheet draws its arrows and locks that way
def docs(request: HttpRequest) -> HttpResponse:
    """Open, as the schema is: it says how to ask, and nothing about this site."""
    return render(request, "api/docs.html")
