"""The reader's own places as one card, which pages of other origins may show in a frame: it only reads.

It has no script, no form and no link that acts: a page around it can make a reader click, but nothing that is clicked
here changes anything. All links open a window of their own. Which origins may frame it is a setting; without one its
headers are those of every page, which no frame shows.
"""

from __future__ import annotations

from csp.constants import HEADER, NONE
from csp.utils import build_policy
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from apps.explain.my_priority import get_my_priority
from apps.pages.my_priority.account_choice import address_of
from apps.web.shell.requests import actor_of, private

MOST_PLACES = 10


@login_not_required  # a frame can't show the sign-in form: the card says that nobody is signed in
@require_safe
def card(request: HttpRequest) -> HttpResponse:
    places = []
    if request.user.is_authenticated:
        accounts = get_my_priority(actor=actor_of(request), at=None, policy_slug=None)
        places = [(each, address_of(each)) for each in accounts if not each.error][:MOST_PLACES]
    context = {"places": places, "is_signed_in": request.user.is_authenticated}
    response = private(render(request, "pages/my_priority/card.html", context))
    origins = settings.FAIRSHARE_FRAME_ORIGINS
    if origins:
        response.xframe_options_exempt = True  # read by Django's middleware
    strict = {"script-src": [NONE], "connect-src": [NONE], "form-action": [NONE]}
    response[HEADER] = build_policy(replace={**strict, "frame-ancestors": list(origins) or [NONE]})
    return response
