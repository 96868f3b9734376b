"""The terminal client with this site's address filled in, its checksum, and the commands that install it."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from django.conf import settings

_BLANK = 'SITE = ""  #'


@lru_cache(maxsize=16)
def client_file(site: str) -> tuple[bytes, str]:
    """The whole file for a site's address, and its SHA-256.

    site: scheme and host as Django has checked them (FAIRSHARE_ALLOWED_HOSTS), without a slash at the end.
    """
    source = Path(settings.BASE_DIR, "terminal", "fairshare.py").read_text(encoding="utf-8")
    if source.count(_BLANK) != 1:
        raise RuntimeError("terminal/fairshare.py must have exactly one line for the site's address.")
    filled = source.replace(_BLANK, f"SITE = {site!r}  #").encode()
    return filled, hashlib.sha256(filled).hexdigest()


def installing(address: str) -> dict[str, str]:
    """Commands that download the client, compare its checksum, and only then make it executable."""
    _, digest = client_file(address.rpartition("/")[0])
    new = '"$HOME/bin/fairshare.new"'
    return {
        "digest": digest,
        "install": f"mkdir -p ~/bin && curl -fsS -o {new} '{address}' \\\n"
        f"  && echo '{digest}  '{new} | sha256sum -c - \\\n"
        f"  && chmod 755 {new} && mv {new} ~/bin/fairshare",
        "keep": "(umask 077; mkdir -p ~/.config/fairshare\n cat > ~/.config/fairshare/token)",
    }
