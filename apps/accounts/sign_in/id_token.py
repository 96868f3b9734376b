"""Claims of an OpenID Connect ID token, once its signature, issuer, audience, times and nonce are verified.

Source: OpenID Connect Core 1.0, 3.1.3.7 and 3.1.3.8 (validation), and 10.1 (keys); RFC 7517 (key sets), where
`kid`, `use` and `alg` of a key are optional.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

import jwt

from apps.core.clock import SKEW

# Of public keys alone: with a symmetric algorithm the client secret would be the key, and "none" proves nothing.
_KEY_TYPES = {
    "RS256": "RSA",
    "RS384": "RSA",
    "RS512": "RSA",
    "PS256": "RSA",
    "PS384": "RSA",
    "PS512": "RSA",
    "ES256": "EC",
    "ES384": "EC",
    "ES512": "EC",
    "EdDSA": "OKP",
}
_MOST_ISSUER_KEYS = 50


class InvalidToken(Exception):
    """The ID token doesn't prove who signs in; the message names the reason for the operator's log."""


def verify_id_token(
    id_token: Any, *, key_set: Any, issuer: str, client_id: str, nonce: str, access_token: str
) -> dict[str, Any]:
    """Claims of the ID token. The issuer's clock may differ from ours by `SKEW`.

    Raises:
        InvalidToken: signature, issuer, audience, times, nonce, subject or the access token's hash aren't what they
            have to be.
    """
    if not isinstance(id_token, str):
        raise InvalidToken("the issuer sent no ID token")
    try:
        header = jwt.get_unverified_header(id_token)
    except jwt.PyJWTError as error:
        raise InvalidToken(f"the ID token can't be read: {error}") from error
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in _KEY_TYPES:
        raise InvalidToken(f"the ID token is signed with {algorithm!r}; one of {', '.join(_KEY_TYPES)} is needed")
    claims = _signed_claims(id_token, algorithm, _fitting_keys(header, key_set), issuer, client_id)
    if not claims["sub"].isprintable() or not claims["sub"].strip():
        raise InvalidToken("the subject of the ID token is empty or has control characters")
    authorised = claims.get("azp")
    if authorised is None and isinstance(claims["aud"], list) and len(claims["aud"]) > 1:
        raise InvalidToken("the ID token has several audiences, and names no client (azp)")
    if authorised is not None and authorised != client_id:
        raise InvalidToken(f"the ID token is for the client {authorised!r}")
    sent = claims.get("nonce")
    if not isinstance(sent, str) or not secrets.compare_digest(sent.encode(errors="surrogatepass"), nonce.encode()):
        raise InvalidToken("the nonce of the ID token is that of another sign-in")
    if "at_hash" in claims and claims["at_hash"] != _access_token_hash(access_token, algorithm):
        raise InvalidToken("at_hash of the ID token is that of another access token")
    return claims


def _access_token_hash(access_token: str, algorithm: str) -> str:
    """The left half of its hash, by the algorithm that signs; Ed25519 has SHA-512."""
    digest = hashlib.new(f"sha{algorithm[2:] if algorithm != 'EdDSA' else 512}", access_token.encode()).digest()
    return base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()


def _fitting_keys(header: Mapping[str, Any], key_set: Any) -> list[dict[str, Any]]:
    """Keys that may have signed: those with the token's `kid`, else those without one."""
    keys = key_set.get("keys") if isinstance(key_set, dict) else None
    if not isinstance(keys, list):
        raise InvalidToken("the issuer's key set isn't an object with a list of keys")
    algorithm = header["alg"]
    usable = [
        key
        for key in keys[:_MOST_ISSUER_KEYS]
        if isinstance(key, dict)
        and key.get("kty") == _KEY_TYPES[algorithm]
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
    ]
    if "kid" in header:
        named = [key for key in usable if key.get("kid") == header["kid"]]
        usable = named or [key for key in usable if "kid" not in key]
    if not usable:
        raise InvalidToken(f"no key of the issuer fits the ID token (kid {header.get('kid')!r}, alg {algorithm})")
    return usable


def _signed_claims(
    id_token: str, algorithm: str, keys: list[dict[str, Any]], issuer: str, client_id: str
) -> dict[str, Any]:
    reason = ""
    for key in keys:
        try:
            claims: dict[str, Any] = jwt.decode(
                id_token,
                key=jwt.PyJWK(key, algorithm).key,
                algorithms=[algorithm],
                issuer=issuer,
                audience=client_id,
                leeway=SKEW,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except (jwt.InvalidSignatureError, jwt.InvalidKeyError, jwt.PyJWKError, ValueError, TypeError) as error:
            reason = f"no key of the issuer verifies the ID token: {error}"
        except jwt.PyJWTError as error:
            raise InvalidToken(f"the ID token is invalid: {error}") from error
        else:
            return claims
    raise InvalidToken(reason)
