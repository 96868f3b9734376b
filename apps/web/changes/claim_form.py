"""The form of a claim: an account that a user names as their own."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from apps.web import bounds
from apps.web.shell.forms import Form, name_field


class ClaimForm(Form):
    """An account that a user claims as their own."""

    namespace = name_field(gettext_lazy("Namespace"), bounds.NAMESPACE)
    user_name = name_field(gettext_lazy("Account"), bounds.USER)
