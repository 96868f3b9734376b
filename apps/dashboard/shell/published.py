"""What a page says after a publication, with the way to what follows it."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _

from apps.policies.models import Revision


def say_published(request: HttpRequest, revision: Revision, *, has_link: bool = True) -> None:
    """Its class names the revision. has_link: no on the page of the change set itself."""
    text = _("Published as revision %(n)s.") % {"n": revision.number}
    if has_link:
        followed = reverse("dashboard:change", kwargs={"change_set": revision.change_set_id})
        text = format_html('{} <a href="{}">{}</a>', text, followed, _("See who moves"))
    messages.success(request, text, extra_tags=f"published-{revision.number}")
