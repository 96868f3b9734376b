"""nginx and Caddy in front of an instance, with the files that docs/security.md shows."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from apps.core.code_paths import REPOSITORY
from tests.faults.stack import eventually, free_port
from tests.material import missing
from tests.security.wire import ask, head, status

EXAMPLES = REPOSITORY / "docs/examples/proxy"
NAME = "fairshare.example.org"
# Around the documented file, on a machine where its user may write to one folder only.
_NGINX = """
daemon off;
user {owner};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    gzip on;
    gzip_proxied any;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {site}
}}
"""
_CADDY = "{{\n    admin off\n    auto_https off\n    default_bind 127.0.0.1\n}}\n{site}"


def nginx_site(port: int, behind: int, certificate: tuple[Path, Path] | None) -> str:
    """The documented file for this machine: other ports, and other files of a certificate, or none."""
    text = (EXAMPLES / "nginx.conf").read_text(encoding="utf-8")
    first, text = text.split("\n\n", 1)
    assert "return 301 https://$host$request_uri;" in first, "plain http leads to https"
    text = replaced(text, "http://127.0.0.1:8000", f"http://127.0.0.1:{behind}")
    lines = re.findall(r"^ *ssl_certificate.*\n", text, re.MULTILINE)
    assert len(lines) == 2
    if certificate is None:
        text = text.replace("".join(lines), "")
        return replaced(text, "listen 443 ssl;", f"listen 127.0.0.1:{port};")
    for name, path in zip(("fullchain", "privkey"), certificate, strict=True):
        text = replaced(text, f"/etc/ssl/fairshare/{name}.pem", str(path))
    return replaced(text, "listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;")


def caddy_site(port: int, behind: int, certificate: tuple[Path, Path] | None) -> str:
    text = (EXAMPLES / "Caddyfile").read_text(encoding="utf-8")
    text = replaced(text, "127.0.0.1:8000", f"127.0.0.1:{behind}")
    if certificate is None:
        return replaced(text, f"{NAME} {{\n", f"http://:{port} {{\n")
    return replaced(text, f"{NAME} {{\n", f"https://{NAME}:{port} {{\n\ttls {certificate[0]} {certificate[1]}\n")


def replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


@contextmanager
def proxy(kind: str, behind: int, folder: Path, certificate: tuple[Path, Path] | None = None) -> Iterator[int]:
    """Its port; it is stopped afterwards. It speaks TLS if it has a certificate."""
    program = shutil.which(kind) or shutil.which(kind, path="/usr/sbin:/usr/local/sbin")
    if program is None:
        missing(f"no {kind}", f"apt-get install {'nginx-light' if kind == 'nginx' else kind}")
    folder.mkdir(mode=0o755)
    port, file = free_port(), folder / f"{kind}.conf"
    site = (nginx_site if kind == "nginx" else caddy_site)(port, behind, certificate)
    file.write_text((_NGINX if kind == "nginx" else _CADDY).format(folder=folder, site=site, owner=folder.owner()))
    command = [program, "-c", str(file), "-e", str(folder / "error.log"), "-p", str(folder)]
    if kind == "caddy":
        command = [program, "run", "--config", str(file), "--adapter", "caddyfile"]
    environment = {**os.environ, "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        answers = _listens if certificate else _answers
        eventually(lambda: answers(port) or process.poll() is not None, f"{kind} answers")
        assert process.poll() is None, (folder / "output").read_text()
        yield port
    finally:
        process.terminate()
        process.wait(20)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def _answers(port: int) -> bool:
    try:
        return status(ask(port, head("GET", "/healthz", "Connection: close"))) == 200
    except (OSError, AssertionError):
        return False
