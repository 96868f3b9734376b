"""Passwords that people make up are kept as Argon2; the suite itself hashes faster, to be quick."""

from __future__ import annotations

from django.contrib.auth.hashers import check_password, identify_hasher, make_password
from django.test import override_settings

from fairshare_web import settings as production


def test_a_password_is_hashed_with_argon2_and_verified() -> None:
    with override_settings(PASSWORD_HASHERS=production.PASSWORD_HASHERS):
        kept = make_password("a long pass phrase")
        assert identify_hasher(kept).algorithm == "argon2"
        assert kept.startswith("argon2$argon2id$")
        assert check_password("a long pass phrase", kept)
        assert not check_password("another pass phrase", kept)
        assert kept != make_password("a long pass phrase"), "each has a salt of its own"
