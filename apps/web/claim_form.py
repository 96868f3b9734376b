"""The form of a claim: an account that a user names as their own."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy

from apps.web.shell.forms import name_field


class ClaimForm(forms.Form):
    """An account that a user claims as their own."""

    namespace = name_field(gettext_lazy("Namespace"), 128)
    user_name = name_field(gettext_lazy("Account"), 256)
