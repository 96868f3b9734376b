"""Signatures of releases: Ed25519 over `SHA256SUMS`, by the keys that sign documents between sites.

python .ci/sign_release.py make-key KEY PUBLIC   a new key, and its public half as PEM
python .ci/sign_release.py sign KEY FOLDER       makes FOLDER/SHA256SUMS.sig
python .ci/sign_release.py check PUBLIC FOLDER   the signature, then each file; docs/upgrade.md does it by openssl
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from apps.core.signing import PublicKey, SigningKey

SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"
_LINE = re.compile(r"([0-9a-f]{64})  ([^/\n]+)")
_KEY_BYTES = 32


class NotSigned(Exception):
    """What isn't as it was signed, in a sentence."""


def make_key(key: Path, public: Path) -> str:
    """Returns the fingerprint. An existing file is never replaced."""
    made = SigningKey.generate()
    with os.fdopen(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(base64.b64encode(made.raw) + b"\n")
    pem = Ed25519PublicKey.from_public_bytes(made.public.raw).public_bytes(
        Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    )
    with public.open("xb") as file:
        file.write(pem)
    return " ".join(made.public.groups)


def sign(key: Path, folder: Path) -> str:
    """Returns the fingerprint."""
    try:
        raw = base64.b64decode(key.read_bytes().strip(), validate=True)
    except binascii.Error:
        raw = b""
    if len(raw) != _KEY_BYTES:
        raise NotSigned(f"{key} holds no key of make-key.")
    signing = SigningKey(raw)
    (folder / SIGNATURE).write_bytes(signing.sign((folder / SUMS).read_bytes()))
    return " ".join(signing.public.groups)


def check(public: Path, folder: Path) -> str:
    """Returns what was checked.

    Raises:
        NotSigned: names the first thing that isn't as it was signed.
    """
    try:
        loaded = load_pem_public_key(public.read_bytes())
    except ValueError:
        loaded = None
    if not isinstance(loaded, Ed25519PublicKey):
        raise NotSigned(f"{public} holds no public key of Ed25519.")
    key = PublicKey(loaded.public_bytes(Encoding.Raw, PublicFormat.Raw))
    for name in (SUMS, SIGNATURE):
        if not (folder / name).is_file():
            raise NotSigned(f"{folder} has no {name}.")
    sums = (folder / SUMS).read_bytes()
    if not key.holds(sums, (folder / SIGNATURE).read_bytes()):
        raise NotSigned(f"{SIGNATURE} isn't this key's signature of {SUMS}.")
    lines = [_LINE.fullmatch(line) for line in sums.decode("ascii").splitlines()]
    for line in lines:
        if line is None:
            raise NotSigned(f"{SUMS} has a line that is no sum.")
        digest, name = line.groups()
        file = folder / name
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            raise NotSigned(f"{name} isn't the file that was signed.")
    listed = {line[2] for line in lines if line is not None}
    if others := sorted({path.name for path in folder.iterdir()} - listed - {SUMS, SIGNATURE}):
        raise NotSigned(f"{others[0]} isn't among the signed files.")
    return f"{len(lines)} files, signed by {' '.join(key.groups)}"


_COMMANDS: dict[str, Callable[[Path, Path], str]] = {"make-key": make_key, "sign": sign, "check": check}


def main(arguments: list[str]) -> int:
    if len(arguments) != 3 or arguments[0] not in _COMMANDS:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(_COMMANDS[arguments[0]](Path(arguments[1]), Path(arguments[2])))
    except (NotSigned, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
