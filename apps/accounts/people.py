"""Users from other sign-in systems: find or create the user of a person, and update name, address and groups."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.models import Identity, User
from apps.core.errors import Invalid, NotAllowed
from apps.core.invisible import visible

SOURCES = tuple(Identity.Source.values)
LONGEST_ADDRESS = 254  # as in Django's user model
LONGEST_GROUP = 150  # as in Django's group model
MOST_GROUPS_OF_PERSON = 2_000
LONGEST_SIGN_IN_GROUP = 4_000  # longer than what is stored: see group_name
# Of distinguished names (RFC 4514): a backslash escapes the next character, or stands before its bytes in hexadecimal.
_RDN = re.compile(r"(?:\\.|[^\\,])+")
_ATTRIBUTE = re.compile(r"(?:\\.|[^\\+])+")
_TYPE_AND_VALUE = re.compile(r"([^=\\]*+)=((?:\\.|[^\\])*+)")
_ESCAPED = re.compile(r"(?:\\[0-9A-Fa-f]{2})+|\\.")
_TO_ESCAPE = re.compile(r'[,+"\\<>;=]|^[# ]| $|[^ -~\x80-\U0010ffff]')


@dataclass(frozen=True, slots=True)
class Person:
    """A person as described by another system at sign-in. `subject` is permanent there."""

    source: str
    subject: str
    username: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    groups: Sequence[str] = ()


@transaction.atomic
def update_or_create_user(person: Person, *, at: datetime, address: str | None = None) -> User:
    """Find or create the user of a person, and update groups.

    A user is found by identity. An existing user of the same name belongs to another person, unless the site trusts the
    source's names (FAIRSHARE_LINK_BY_NAME).

    Raises:
        NotAllowed: the name is in use, or the user is deactivated.
        Invalid: the source sends no valid name.
    """
    subject = person.subject.strip()
    if not subject or len(subject) > 1024:
        raise Invalid(_("Your sign-in sends no user name: contact your site’s support."))
    identity = Identity.objects.select_related("user").filter(source=person.source, subject=subject).first()
    user = identity.user if identity else _linked(person, subject, at, address)
    if not user.is_active:
        raise NotAllowed(_("This account is closed: contact your site’s support."), code="account_closed")
    actor = Actor(user=user, via="page", address=address)
    _update(user, person)
    _sync_groups(user, person, at, actor)
    return user


def normalise_group(name: str) -> str:
    """Canonical name of a sign-in group: `oidc:physics`, `ldap:cn=hpc,ou=groups`, `header:staff`.

    Distinguished names have one form: lower case, without spaces around their parts, characters escaped by a backslash.
    A name that is too long is cut and gets a digest.

    Raises:
        ValueError: not a usable group name.
    """
    text = unicodedata.normalize("NFC", name.strip())
    if not text or len(text) > LONGEST_SIGN_IN_GROUP:
        raise ValueError("must name a group of sign-in, such as oidc:physics")
    if any(unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for character in text):
        raise ValueError("contains a character that can't be seen; leave it out")
    source, colon, rest = text.partition(":")
    if colon and source.lower() in SOURCES:
        if not rest.strip():
            raise ValueError(f"must name a group after {source.lower()}:")
        text = f"{source.lower()}:{rest.strip()}"
    if text.startswith("ldap:"):
        text = f"ldap:{_canonical_dn(rest.strip())}"
    if len(text) > LONGEST_GROUP:
        digest = sha256(text.encode()).hexdigest()[:16]
        text = f"{text[: LONGEST_GROUP - 17]}~{digest}"
    return text


def _canonical_dn(text: str) -> str:
    """The distinguished name in one of the forms that RFC 4514 allows; a text that is none is in lower case."""
    names = []
    for rdn in _RDN.findall(text):
        pairs = [_TYPE_AND_VALUE.fullmatch(attribute) for attribute in _ATTRIBUTE.findall(rdn)]
        if not all(pairs):
            return text.lower()
        texts = (f"{pair[1].strip().lower()}={_canonical_value(_without_blanks(pair[2]))}" for pair in pairs if pair)
        names.append("+".join(sorted(texts)))
    return ",".join(names)


def _without_blanks(value: str) -> str:
    """Around it, but for one that a backslash escapes."""
    value = value.lstrip()
    text = value.rstrip()
    is_escaped = (len(text) - len(text.rstrip("\\"))) % 2
    return value[: len(text) + is_escaped]


def _canonical_value(value: str) -> str:
    plain = _ESCAPED.sub(_unescaped, value).lower()
    return _TO_ESCAPE.sub(lambda special: f"\\{special[0]}" if special[0].isprintable() else _in_hex(special[0]), plain)


def _unescaped(escaped: re.Match[str]) -> str:
    text = escaped[0]
    if len(text) == 2:
        return text[1]
    return bytes.fromhex(text.replace("\\", "")).decode("utf-8", errors="replace")


def _in_hex(character: str) -> str:
    return "".join(f"\\{byte:02x}" for byte in character.encode())


def _linked(person: Person, subject: str, at: datetime, address: str | None) -> User:
    username = _clean_username(person.username)
    user = User.objects.select_for_update(no_key=True).filter(username__iexact=username).first()
    if user is not None and person.source not in settings.FAIRSHARE_LINK_BY_NAME:
        message = _(
            "An account %(name)s already exists, and nothing proves that it is yours: contact your site’s support."
        )
        raise NotAllowed(message % {"name": username}, code="name_taken")
    made = user is None
    if user is None:
        user = User(username=username, date_joined=at)
        user.set_unusable_password()
        user.save()
    Identity.objects.create(user=user, source=person.source, subject=subject, linked_at=at)
    audit.record(
        actor=Actor(user=user, via="page", address=address),
        verb="user.made" if made else "user.linked",
        at=at,
        subject=user.username,
        details={"source": person.source, "subject": subject},
    )
    return user


def _clean_username(text: str) -> str:
    username = unicodedata.normalize("NFKC", text.strip())
    try:
        User._meta.get_field("username").clean(username, None)
    except ValidationError as error:
        reasons = " ".join(error.messages)
        raise Invalid(_("Your sign-in sends no usable user name: %(reasons)s") % {"reasons": reasons}) from None
    return username


def _update(user: User, person: Person) -> None:
    """Update name and address from the source; values that it doesn't send stay."""
    values = {
        "first_name": _one_line(person.first_name)[:150],
        "last_name": _one_line(person.last_name)[:150],
        "email": _address(person.email),
    }
    changed = [name for name, value in values.items() if value and getattr(user, name) != value]
    for name in changed:
        setattr(user, name, values[name])
    if changed:
        user.save(update_fields=changed)


def _one_line(text: str) -> str:
    """A name without line breaks and invisible characters, which directories allow."""
    return " ".join(visible(text).split())


def _address(text: str) -> str:
    """A valid mail address, or ""."""
    address = text.strip()
    try:
        validate_email(address)
    except ValidationError:
        return ""
    return address if len(address) <= LONGEST_ADDRESS else ""


def _sync_groups(user: User, person: Person, at: datetime, actor: Actor) -> None:
    """Set the groups of this source; groups of other sources and local groups stay."""
    prefix = f"{person.source}:"
    wanted = set()
    for name in list(person.groups)[:MOST_GROUPS_OF_PERSON]:
        try:
            wanted.add(normalise_group(prefix + name))
        except ValueError:
            continue  # a name that can't be used in a grant
    held = {group.name: group for group in user.groups.filter(name__startswith=prefix)}
    added, removed = sorted(wanted - held.keys()), sorted(held.keys() - wanted)
    if not added and not removed:
        return
    user.groups.remove(*(held[name] for name in removed))
    Group.objects.bulk_create([Group(name=name) for name in added], ignore_conflicts=True)
    user.groups.add(*Group.objects.filter(name__in=added))
    details = {"source": person.source, "added": added, "removed": removed}
    audit.record(actor=actor, verb="user.groups", at=at, subject=user.username, details=details)
