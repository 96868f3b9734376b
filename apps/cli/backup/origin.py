"""Who made a backup. Its checksums say that it is whole; anybody who can write to its folder can make such a file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from apps.cli.backup.contents import Examined
from apps.core.errors import Invalid, NotAllowed


class UnknownOrigin(NotAllowed):
    """Nothing that the operator gave shows who made the backup."""

    code = "unknown_origin"


@dataclass(frozen=True, slots=True)
class Origin:
    """What an operator knows of the backup. signed_by, sha256: hexadecimal, as `backup` printed them; "" if not given.

    is_any_accepted: also from an unknown origin.
    """

    signed_by: str = ""
    sha256: str = ""
    is_any_accepted: bool = False

    def check(self) -> None:
        """Raises Invalid where an input is no digest."""
        for name, value in (("--signed-by", self.signed_by), ("--sha256", self.sha256)):
            if value and not re.fullmatch(r"[0-9a-f]{64}", _plain(value)):
                raise Invalid(f"{name} takes the 64 hexadecimal digits that `backup` printed.")


def require_known_origin(origin: Origin, found: Examined) -> None:
    """Refuse a backup unless the operator knows its digest or the key that signed it, or takes it from anybody.

    Raises:
        UnknownOrigin: with what is in the file, and what to give.
    """
    signer = found.signer
    signed = f"It is signed by the key {signer}" if signer else "It isn't signed: a release before made it, or another"
    if origin.sha256 and _plain(origin.sha256) != found.sha256:
        raise UnknownOrigin(f"The backup is another one: its SHA-256 is {found.sha256}.")
    if origin.signed_by and _plain(origin.signed_by) != signer:
        raise UnknownOrigin(f"The backup isn't signed by that key. {signed}.")
    if not (origin.sha256 or origin.signed_by or origin.is_any_accepted):
        known = "--signed-by with the fingerprint of your site's key, or " if signer else ""
        raise UnknownOrigin(
            f"Nothing shows who made the backup. {signed}. Give {known}--sha256 with the digest that `backup` printed. "
            "--any-origin restores it all the same: the person who made it then owns the site."
        )


def _plain(digits: str) -> str:
    return re.sub(r"[\s:]", "", digits).lower()
