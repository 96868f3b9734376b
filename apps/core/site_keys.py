"""The keys of a site: without them what it stored is worthless, so its processes share them and backups hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.conf import settings

#: The file in FAIRSHARE_VAR that has each key where no setting has it.
KEY_FILES: Mapping[str, str] = {
    "SECRET_KEY": "secret_key",
    "FAIRSHARE_TOKEN_PEPPERS": "token_pepper",
    "FAIRSHARE_PSEUDONYM_KEY": "pseudonym_key",
}


def site_keys() -> dict[str, Sequence[str]]:
    """The values of each key by its setting: the one that is used first, then those that are being replaced."""
    return {
        "SECRET_KEY": [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS],
        "FAIRSHARE_TOKEN_PEPPERS": list(settings.FAIRSHARE_TOKEN_PEPPERS),
        "FAIRSHARE_PSEUDONYM_KEY": [settings.FAIRSHARE_PSEUDONYM_KEY],
    }
