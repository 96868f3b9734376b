"""nginx and Caddy in front of an instance, as docs/security.md sets them up."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.stack import eventually, free_port
from tests.material import missing
from tests.security.wire import ask, head, status

_NGINX = """
daemon off;
user {owner};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{behind};
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto $scheme;
            client_max_body_size 2g;
        }}
    }}
}}
"""
_CADDY = """
{{
    admin off
    auto_https off
}}
http://:{port} {{
    bind 127.0.0.1
    reverse_proxy 127.0.0.1:{behind}
}}
"""


@contextmanager
def proxy(kind: str, behind: int, folder: Path) -> Iterator[int]:
    """Its port; it is stopped afterwards."""
    program = shutil.which(kind) or shutil.which(kind, path="/usr/sbin:/usr/local/sbin")
    if program is None:
        missing(f"no {kind}", f"apt-get install {'nginx-light' if kind == 'nginx' else kind}")
    folder.mkdir(mode=0o755)
    port, file = free_port(), folder / f"{kind}.conf"
    file.write_text(
        (_NGINX if kind == "nginx" else _CADDY).format(folder=folder, port=port, behind=behind, owner=folder.owner())
    )
    command = [program, "-c", str(file), "-e", str(folder / "error.log"), "-p", str(folder)]
    if kind == "caddy":
        command = [program, "run", "--config", str(file), "--adapter", "caddyfile"]
    environment = {**os.environ, "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        eventually(lambda: _answers(port) or process.poll() is not None, f"{kind} answers")
        assert process.poll() is None, (folder / "output").read_text()
        yield port
    finally:
        process.terminate()
        process.wait(20)


def _answers(port: int) -> bool:
    try:
        return status(ask(port, head("GET", "/healthz", "Connection: close"))) == 200
    except (OSError, AssertionError):
        return False
