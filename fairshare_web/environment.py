"""Typed readers of the environment: a wrong value stops the start and names the variable."""

from __future__ import annotations

import os
import re
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+")
_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}
_DATABASE_EXAMPLE = "example: postgres://fairshare:password@db.example.org:5432/fairshare"


def env_str(name: str, *, default: str) -> str:
    """NAME, or the content of the file that NAME_FILE names."""
    path = os.environ.get(f"{name}_FILE")
    if path:
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE={path} can't be read: {error.strerror}.") from error
    return os.environ.get(name, default)


def env_bool(name: str, *, default: bool) -> bool:
    value = env_str(name, default="1" if default else "0").strip().lower()
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name}={value!r} is not a yes or a no: use 1 or 0.")


def env_int(name: str, *, default: int, minimum: int = 0, maximum: int | None = None) -> int:
    value = env_str(name, default=str(default))
    try:
        number = int(value)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}={value!r} is not a whole number.") from error
    if number < minimum:
        raise ImproperlyConfigured(f"{name}={value!r} is too small: {minimum} or more.")
    if maximum is not None and number > maximum:
        raise ImproperlyConfigured(f"{name}={value!r} is too large: {maximum} or less.")
    return number


def env_choice(name: str, allowed: tuple[str, ...]) -> str:
    """One of the allowed words, the first where nothing is said."""
    value = env_str(name, default=allowed[0]).strip().lower()
    if value not in allowed:
        raise ImproperlyConfigured(f"{name}={value!r} is not known: use {', '.join(allowed)}.")
    return value


def env_url(name: str) -> str:
    """Where this service is reached from outside, without a path; empty where nothing is said."""
    value = env_str(name, default="").strip().rstrip("/")
    if value and not _ORIGIN.fullmatch(value):
        raise ImproperlyConfigured(f"{name}={value!r} is no address; example: https://fairshare.example.org.")
    return value


def env_list(name: str, *, default: str = "") -> list[str]:
    return [part.strip() for part in env_str(name, default=default).split(",") if part.strip()]


def env_origins(name: str) -> list[str]:
    """Origins, such as https://portal.example.org: each exactly, without a path or a wildcard."""
    origins = [origin.rstrip("/") for origin in env_list(name)]
    for origin in origins:
        if not _ORIGIN.fullmatch(origin):
            raise ImproperlyConfigured(
                f"{name} has {origin!r}, which is no origin; example: https://portal.example.org."
            )
    return origins


def env_file(name: str) -> str:
    """The file that NAME_FILE names, for a value that is read again when the file changes; "" where none is named."""
    return os.environ.get(f"{name}_FILE", "")


def env_database(name: str) -> dj_database_url.DBConfig | None:
    """Where the PostgreSQL is that NAME names; None where it names none."""
    value = env_str(name, default="")
    if not value:
        return None
    try:
        config = dj_database_url.parse(value)
    except ValueError as error:  # not quoted: it may hold a password
        raise ImproperlyConfigured(f"{name} is no address; {_DATABASE_EXAMPLE}.") from error
    if config["ENGINE"] != "django.db.backends.postgresql":
        raise ImproperlyConfigured(f"{name} must name a PostgreSQL; {_DATABASE_EXAMPLE}.")
    return config


def env_time_zone(name: str, *, default: str) -> str:
    value = env_str(name, default=default)
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ImproperlyConfigured(f"{name}={value!r} is not a time zone; example: Europe/Stockholm.") from error
    return value
