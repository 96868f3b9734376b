"""A small OpenID Connect issuer on loopback, as a process of its own: discovery, authorize, token, userinfo, keys.

Run: python issuer.py FOLDER CLIENT_ID CLIENT_SECRET. It writes its address to FOLDER/address and reads who signs in
from FOLDER/person.json: claims, under "wrong" how to misbehave (signature, nonce, audience, issuer, expired, sub), and
what to change in its documents (null removes a field): `config`, `token`, `header`, `key`; `userinfo` and `answer` (of
the token endpoint) replace a whole document, `more_keys` come before its own, `algorithm` signs (RS256, ES256, ES384,
EdDSA, HS256). `generation` (1, 2, …) is the key that signs, `published` the generations in its key set (those of the
signing one and before it, if it says nothing). FOLDER/asked has the path of each request, a line each.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import sys
import time
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

FOLDER, CLIENT_ID, CLIENT_SECRET = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
CURVE_KEYS: dict[str, Any] = {
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
_JWK: dict[str, Any] = {
    "ES256": jwt.algorithms.ECAlgorithm,
    "ES384": jwt.algorithms.ECAlgorithm,
    "EdDSA": jwt.algorithms.OKPAlgorithm,
}
_HASHES = {"ES384": hashlib.sha384, "EdDSA": hashlib.sha512}
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CODES: dict[str, dict[str, str]] = {}
TOKENS: dict[str, dict[str, Any]] = {}


@lru_cache
def rsa_key(generation: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Issuer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        address = urlsplit(self.path)
        self.note(address.path)
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path == "/.well-known/openid-configuration":
            base = self.base()
            config = {
                "issuer": base,
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/token",
                "userinfo_endpoint": f"{base}/userinfo",
                "jwks_uri": f"{base}/keys",
                "end_session_endpoint": f"{base}/end",
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256", "ES256", "ES384", "EdDSA"],
                "scopes_supported": ["openid", "profile", "email"],
                "claims_supported": ["sub", "preferred_username", "given_name", "family_name", "email", "groups"],
                "code_challenge_methods_supported": ["S256"],
            }
            self.answer(self.changed(config, "config"))
        elif address.path == "/keys":
            person = self.person()
            algorithm, generation = person.get("algorithm", "RS256"), person.get("generation", 1)
            keys = []
            for number in person.get("published", range(1, generation + 1)):
                if algorithm in CURVE_KEYS:
                    public = _JWK[algorithm].to_jwk(CURVE_KEYS[algorithm].public_key(), as_dict=True)
                else:
                    public = jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key(number).public_key(), as_dict=True)
                keys.append(self.changed({**public, "kid": str(number), "alg": algorithm, "use": "sig"}, "key"))
            self.answer({"keys": [*person.get("more_keys", []), *keys]})
        elif address.path == "/authorize":
            self.authorize(asked)
        elif address.path == "/userinfo":
            if "userinfo" in self.person():
                return self.answer(self.person()["userinfo"])
            claims = TOKENS.get(self.headers.get("Authorization", "").removeprefix("Bearer "))
            self.answer(claims or {"error": "invalid_token"}, 200 if claims else 401)
        else:
            self.answer({}, 404)

    def do_POST(self) -> None:
        self.note(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked = {name: values[0] for name, values in parse_qs(body).items()}
        found = CODES.pop(asked.get("code", ""), None)
        verifier = base64.urlsafe_b64encode(hashlib.sha256(asked.get("code_verifier", "").encode()).digest())
        is_client = self.credentials(asked) == (CLIENT_ID, CLIENT_SECRET)
        fits = found and found["code_challenge"] == verifier.rstrip(b"=").decode()
        if not (is_client and fits and found and found["redirect_uri"] == asked.get("redirect_uri")):
            return self.answer({"error": "invalid_grant"}, 400)
        person = self.person()
        claims, wrong = person["claims"], person.get("wrong", "")
        if "answer" in person:
            return self.answer(person["answer"])
        access = secrets.token_urlsafe(16)
        TOKENS[access] = {**claims, "sub": "somebody-else"} if wrong == "sub" else claims
        self.answer(
            {"access_token": access, "token_type": "Bearer", "id_token": self.id_token(claims, found, wrong, access)}
        )

    def credentials(self, asked: dict[str, str]) -> tuple[str, ...]:
        """The client's, by the method that the discovery document names: Basic if it names none."""
        config = self.changed({"token_endpoint_auth_methods_supported": ["client_secret_post"]}, "config")
        if "client_secret_post" in config.get("token_endpoint_auth_methods_supported", []):
            return asked.get("client_id", ""), asked.get("client_secret", "")
        sent = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode("ascii")
        return tuple(map(unquote_plus, sent.split(":"))) if "client_secret" not in asked else ()

    def note(self, path: str) -> None:
        with (FOLDER / "asked").open("a", encoding="utf-8") as file:
            file.write(f"{path}\n")

    def authorize(self, asked: dict[str, str]) -> None:
        """Asks nothing: signs in the user whom person.json names."""
        needed = {"client_id": CLIENT_ID, "response_type": "code", "code_challenge_method": "S256"}
        if any(asked.get(name) != value for name, value in needed.items()) or "openid" not in asked.get("scope", ""):
            return self.answer({"error": "invalid_request"}, 400)
        back = {"state": asked["state"]}
        if self.person().get("wrong") == "cancelled":
            back["error"] = "access_denied"
        else:
            back["code"] = secrets.token_urlsafe(16)
            CODES[back["code"]] = asked
        self.send_response(302)
        self.send_header("Location", f"{asked['redirect_uri']}?{urlencode(back)}")
        self.end_headers()

    def id_token(self, claims: dict[str, Any], asked: dict[str, str], wrong: str, access: str) -> str:
        now, person = int(time.time()), self.person()
        algorithm, generation = person.get("algorithm", "RS256"), person.get("generation", 1)
        digest = _HASHES.get(algorithm, hashlib.sha256)(access.encode()).digest()
        token = {
            "iss": "https://another.example" if wrong == "issuer" else self.base(),
            "aud": "another" if wrong == "audience" else CLIENT_ID,
            "sub": claims["sub"],
            "nonce": "of another sign-in" if wrong == "nonce" else asked.get("nonce"),
            "iat": now - 7200 if wrong == "expired" else now,
            "exp": now - 3600 if wrong == "expired" else now + 60,
            "auth_time": now,
            "azp": CLIENT_ID,
            "at_hash": base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode(),
        }
        keys = {**CURVE_KEYS, "HS256": CLIENT_SECRET * 4}
        key = OTHER_KEY if wrong == "signature" else keys.get(algorithm) or rsa_key(generation)
        token = self.changed(token, "token")
        return jwt.api_jws.encode(
            json.dumps(token).encode(),
            key,
            algorithm=algorithm,
            headers=self.changed({"kid": str(generation)}, "header"),
        )

    def changed(self, document: dict[str, Any], name: str) -> dict[str, Any]:
        """The document with the changes in person.json; null removes a field, "+2" and "-2" move an instant."""
        for field, value in self.person().get(name, {}).items():
            if value is None:
                document.pop(field, None)
            else:
                is_change = isinstance(document.get(field), int) and str(value)[0] in "+-"
                document[field] = document[field] + int(value) if is_change else value
        return document

    def person(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((FOLDER / "person.json").read_text(encoding="utf-8"))
        return found

    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"  # type: ignore[attr-defined]

    def answer(self, body: Any, status: int = 200) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None: ...


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", 0), Issuer)
    (FOLDER / "address.new").write_text(f"http://127.0.0.1:{server.server_port}", encoding="utf-8")
    (FOLDER / "address.new").rename(FOLDER / "address")
    server.serve_forever()
