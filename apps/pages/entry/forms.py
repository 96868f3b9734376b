"""The form that changes an entry's shares."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.utils.translation import gettext_lazy

from apps.core.errors import Conflict, Invalid
from apps.web import bounds
from apps.web.changes.edit_refusals import field_of, message_of
from apps.web.changes.share_input import Percentage, Shares, read_typed_shares
from apps.web.shell.forms import Form

TAKE = "take"  # the answer to a conflict that takes the other person's value


class SharesForm(Form):
    """An entry's shares, who pays for them, the reason, and the revision that the change is based on.

    place: the entry whose page shows the panel.
    """

    shares = forms.CharField(
        max_length=bounds.NUMBER,
        error_messages={"required": gettext_lazy("Enter a number (20 or 0.5) or a percentage.")},
    )
    giver = forms.UUIDField(required=False, error_messages={"invalid": gettext_lazy("Choose a sibling of the entry.")})
    reason = forms.CharField(
        max_length=bounds.REASON,
        error_messages={"required": gettext_lazy("Enter a reason to publish.")},
    )
    base_revision = forms.IntegerField(min_value=1)
    place = forms.UUIDField(required=False)

    def clean_shares(self) -> Shares | Percentage:
        return read_typed_shares(str(self.cleaned_data["shares"]))

    @property
    def giver_uid(self) -> UUID | None:
        giver: UUID | None = self.cleaned_data.get("giver")
        return giver

    @property
    def place_uid(self) -> UUID | None:
        place: UUID | None = self.cleaned_data.get("place")
        return place

    def add_refusal(self, error: Invalid | Conflict) -> None:
        """Add the refusal of a service to the field that it names, else to the shares."""
        name = field_of(error) if isinstance(error, Invalid) else ""
        self.add_error(name if name in self.fields else "shares", message_of(error))

    def answer_conflict(self, answer: str) -> None:
        """Put the other person's shares into the form if the answer is `take:` and these; others change nothing."""
        step, _colon, shares = answer.partition(":")
        if step == TAKE:
            self.data = {**self.data.dict(), "shares": shares}  # type: ignore[attr-defined]
