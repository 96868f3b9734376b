"""A person who makes a token shows again who they are: by the password, or by a sign-in of the last minutes."""

from __future__ import annotations

from typing import cast

from django import forms
from django.contrib.auth import authenticate
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext as _

from apps.accounts.models import User
from apps.pages.tokens.tickets import spend_ticket
from apps.web.shell.sign_in_state import asks_password, is_fresh


def has_confirmed(request: HttpRequest, form: forms.Form) -> bool:
    """Whether the user has confirmed with the password, or signed in recently without one, and the ticket is unused.

    `authenticate` counts wrong passwords for the lockout, so that a stolen session can't guess the password.
    """
    if not asks_password(request):
        if not is_fresh(request):
            message = _("You signed in over ten minutes ago: sign out and in again, then return here.")
            form.add_error(None, ValidationError(message, code="sign_in_again"))
            return False
    else:
        username = cast("User", request.user).get_username()
        user = authenticate(request, username=username, password=form.cleaned_data["password"])
        if user is None or user.pk != request.user.pk:
            form.add_error("password", _("Wrong password."))
            return False
    if not spend_ticket(request, form.cleaned_data["ticket"]):
        message = _(
            "This form was submitted before, or is too old; nothing was changed. Check your tokens, then try again."
        )
        form.add_error(None, message)
        return False
    return True
