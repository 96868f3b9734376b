#!/usr/bin/env python3
"""Receives webhooks on 127.0.0.1, and prints each event whose signature is right. Python 3.9 or newer, nothing else.

    receive.py PORT SECRET_FILE

The scheme is Standard Webhooks (https://www.standardwebhooks.com): ready verifiers exist for many languages.
"""

import base64
import hashlib
import hmac
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

TOLERANCE_S = 300
MOST_BYTES = 64 * 1024
known = {}  # ids of accepted deliveries, by when each came: a repeat is confirmed and not processed again


def is_signed(headers, body, secret, now_s):
    """Whether the sender has the secret, and signed this body within the last five minutes."""
    id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not id or not timestamp.isascii() or not timestamp.isdigit() or abs(now_s - int(timestamp)) > TOLERANCE_S:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(digest)
    # Several signatures, with a space between, where a secret is being replaced. Compared in constant time.
    given = headers.get("webhook-signature", "").encode("latin-1").split(b" ")
    return any(hmac.compare_digest(expected, each) for each in given)


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self):
        length = self.headers.get("content-length", "")
        body = self.rfile.read(int(length)) if length.isdigit() and int(length) <= MOST_BYTES else b""
        now_s = time.time()
        if not body or not is_signed(self.headers, body, self.server.secret, now_s):
            self.answer(401)
            return
        id = self.headers["webhook-id"]
        if id not in known:
            event = json.loads(body)
            print(event["event"], event.get("notice", {}).get("sentence", {}).get("text", ""), flush=True)
            known[id] = now_s  # after the work: what fails above is sent again
        for old in [each for each, at_s in known.items() if now_s - at_s > 86_400]:
            del known[old]
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """No line for each request."""


def main():
    server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
    server.secret = Path(sys.argv[2]).read_text(encoding="ascii").strip()
    print(f"listening on port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
