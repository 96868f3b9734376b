"""DNs and FQANs that are stored get the spelling under which new ones are stored.

Where two stored accounts turn out to be one, the older one gets the spelling, and the others stay as they are with their
records, which this migration doesn't touch: rules read them like the first, so all of them count at the same entry, and
new usage goes to the first.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations
from django.db.models import Q

from apps.accounts.names.intern import AccountKey, canonical


def spell(apps: Any, schema_editor: Any) -> None:
    account = apps.get_model("accounts", "Account")
    names = AccountKey._fields
    odd = account.objects.filter(~Q(dn="") | ~Q(fqan="") | Q(user_name__contains="=")).order_by("id")
    for pk, *now in odd.values_list("id", *names).iterator(chunk_size=5_000):
        wanted = canonical(AccountKey(*now))
        if wanted != AccountKey(*now) and not account.objects.filter(**wanted._asdict()).exists():
            account.objects.filter(pk=pk).update(**wanted._asdict())


def keep(apps: Any, schema_editor: Any) -> None:
    """How they were spelled isn't known any more; both spellings are the same name."""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0004_audit_checks"),
    ]

    operations = [migrations.RunPython(spell, keep)]
