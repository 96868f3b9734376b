"""People as other systems know them: who they are here, and which of their groups they are in today."""

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
LONGEST_ADDRESS = 254  # as Django's users have it
LONGEST_GROUP = 150  # as Django's groups have it
MOST_GROUPS = 2_000
_AROUND = re.compile(r"\s*([,=])\s*")


@dataclass(frozen=True, slots=True)
class Person:
    """A person as another system describes them at this sign-in. `subject` never changes there."""

    source: str
    subject: str
    username: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    groups: Sequence[str] = ()


@transaction.atomic
def welcome(person: Person, *, at: datetime, via: str, address: str | None = None) -> User:
    """Their account here, made or found, with today's groups.

    An account is found by identity. An existing one of that name belongs to another person, unless the site trusts this
    source's names (FAIRSHARE_LINK_BY_NAME).

    Raises:
        NotAllowed: the name is in use here, or the account is closed.
        Invalid: the source sends no valid name.
    """
    subject = person.subject.strip()
    if not subject or len(subject) > 1024:
        raise Invalid(_("Your sign-in sends no user name: contact your site’s support."))
    identity = Identity.objects.select_related("user").filter(source=person.source, subject=subject).first()
    user = identity.user if identity else _linked(person, subject, at, via, address)
    if not user.is_active:
        raise NotAllowed(_("This account is closed: contact your site’s support."), code="account_closed")
    actor = Actor(user=user, via=via, address=address)
    _update(user, person)
    _sync_groups(user, person, at, actor)
    return user


def clean_group(name: str) -> str:
    """The one way in which a group of sign-in is written: `oidc:physics`, `ldap:cn=hpc,ou=groups`, `header:staff`.

    Distinguished names differ in case and spaces without meaning it. What is too long keeps its beginning and a digest.
    Raises ValueError.
    """
    text = unicodedata.normalize("NFC", name.strip())
    if not text or len(text) > 4_000:
        raise ValueError("must name a group of sign-in, such as oidc:physics")
    if any(unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for character in text):
        raise ValueError("contains a character that can't be seen; leave it out")
    source, colon, rest = text.partition(":")
    if colon and source.lower() in SOURCES:
        if not rest.strip():
            raise ValueError(f"must name a group after {source.lower()}:")
        text = f"{source.lower()}:{rest.strip()}"
    if text.startswith("ldap:"):
        text = _AROUND.sub(r"\1", text).lower()
    if len(text) > LONGEST_GROUP:
        digest = sha256(text.encode()).hexdigest()[:16]
        text = f"{text[: LONGEST_GROUP - 17]}~{digest}"
    return text


def _linked(person: Person, subject: str, at: datetime, via: str, address: str | None) -> User:
    username = _clean_username(person.username)
    user = User.objects.select_for_update().filter(username__iexact=username).first()
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
        actor=Actor(user=user, via=via, address=address),
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
        raise Invalid(_("Your sign-in sends no usable user name: ") + " ".join(error.messages)) from None
    return username


def _update(user: User, person: Person) -> None:
    """Names and address follow the source; what it doesn't send stays, and so does an address where it sends none."""
    said = {
        "first_name": _one_line(person.first_name)[:150],
        "last_name": _one_line(person.last_name)[:150],
        "email": _address(person.email),
    }
    changed = [name for name, value in said.items() if value and getattr(user, name) != value]
    for name in changed:
        setattr(user, name, said[name])
    if changed:
        user.save(update_fields=changed)


def _one_line(text: str) -> str:
    """A name as it is displayed: directories allow line ends and invisible characters in it."""
    return " ".join(visible(text).split())


def _address(text: str) -> str:
    """One mail address, or "" where it is none."""
    address = text.strip()
    try:
        validate_email(address)
    except ValidationError:
        return ""
    return address if len(address) <= LONGEST_ADDRESS else ""


def _sync_groups(user: User, person: Person, at: datetime, actor: Actor) -> None:
    """Groups of this source become what it says today; those of other sources, and local ones, stay."""
    prefix = f"{person.source}:"
    wanted = set()
    for name in list(person.groups)[:MOST_GROUPS]:
        try:
            wanted.add(clean_group(prefix + name))
        except ValueError:
            continue  # a name that can't be typed into a grant
    held = {group.name: group for group in user.groups.filter(name__startswith=prefix)}
    added, removed = sorted(wanted - held.keys()), sorted(held.keys() - wanted)
    if not added and not removed:
        return
    user.groups.remove(*(held[name] for name in removed))
    Group.objects.bulk_create([Group(name=name) for name in added], ignore_conflicts=True)
    user.groups.add(*Group.objects.filter(name__in=added))
    details = {"source": person.source, "added": added, "removed": removed}
    audit.record(actor=actor, verb="user.groups", at=at, subject=user.username, details=details)
