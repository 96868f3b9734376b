"""The form that changes an entry's shares."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy

from apps.web.share_input import Percentage, Shares, read_typed_shares


class SharesForm(forms.Form):
    """An entry's shares, with the reason and the revision that the change is based on."""

    shares = forms.CharField(
        max_length=40, label=gettext_lazy("Shares"), error_messages={"required": gettext_lazy("Enter the shares.")}
    )
    reason = forms.CharField(
        max_length=2000,
        label=gettext_lazy("Reason"),
        error_messages={"required": gettext_lazy("Enter a reason.")},
    )
    base_revision = forms.IntegerField(min_value=1)
    previewed = forms.CharField(max_length=40, required=False)

    def clean_shares(self) -> Shares | Percentage:
        return read_typed_shares(str(self.cleaned_data["shares"]))

    @property
    def is_previewed(self) -> bool:
        """Whether the shown preview is of the shares typed now."""
        return bool(self.data.get("previewed")) and self.data.get("previewed") == self.data.get("shares")
