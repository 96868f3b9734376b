"""The names of an account, their canonical spelling, and pseudonyms in their place."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b32encode
from typing import NamedTuple

from django.conf import settings

from apps.accounts.grid_names import canonical_dn, canonical_fqan, is_dn
from apps.accounts.models import Account
from apps.core.column_bounds import most_characters

_BYTES = 15  # 24 characters without padding; two of a million names collide with a probability of 10⁻²⁴


def pseudonym_of(name: str, namespace: str) -> str:
    """Keyed hash (HMAC-SHA-256) of a name in its namespace; "" for an empty name."""
    if not name:
        return ""
    text = f"{namespace}\0{name}".encode()
    digest = hmac.new(settings.FAIRSHARE_PSEUDONYM_KEY.encode(), text, hashlib.sha256).digest()
    return "p-" + b32encode(digest[:_BYTES]).decode().lower()


class AccountKey(NamedTuple):
    """The fields that identify an account; empty where the source reports none."""

    namespace: str
    user_name: str = ""
    group_name: str = ""
    dn: str = ""
    fqan: str = ""
    project: str = ""


LONGEST_OF_COLUMNS = tuple(most_characters(Account, column) for column in AccountKey._fields)


def canonical(key: AccountKey) -> AccountKey:
    """The canonical spelling of an account's names, under which it is stored and compared: see grid_names.

    A user name that can only be a DN is spelled like one. A name whose canonical spelling is too long to store is
    unchanged.
    """
    _namespace, user_name, _group, dn, fqan, _project = key
    if not dn and not fqan and "=" not in user_name:
        return key
    spelled = key._replace(
        user_name=canonical_dn(user_name) if is_dn(user_name) else user_name,
        dn=canonical_dn(dn) if dn else "",
        fqan=canonical_fqan(fqan) if fqan else "",
    )
    fits = all(len(text) <= longest for text, longest in zip(spelled, LONGEST_OF_COLUMNS, strict=True))
    return spelled if fits and (spelled.user_name or spelled.dn or spelled.group_name) else key


def pseudonymous(key: AccountKey) -> AccountKey:
    """Replace user name and DN by pseudonyms; group, project and FQAN don't name a person."""
    named = key.namespace
    return key._replace(user_name=pseudonym_of(key.user_name, named), dn=pseudonym_of(key.dn, named))
