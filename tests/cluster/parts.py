"""What runs on the hosts: two PostgreSQL servers, the pooler, a broker, and the product's own processes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from apps.cli.stack.postgres import find_binaries
from tests.cluster.hosts import HUB, NAMES, Host, address, eventually, own_environment
from tests.databases import schema_digest
from tests.start import schema_folder

WEB_PORT = 8000
_POOL_PORT = 6432
# Neither PostgreSQL nor PgBouncer runs as root.
_UNPRIVILEGED = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
_HBA = "local all all trust\nhost all all 10.77.0.0/24 trust\nhost replication all 10.77.0.0/24 trust\n"
_OPTIONS = {
    "listen_addresses": "*",
    "fsync": "off",  # only processes die here, no machine
    "max_connections": "150",
    "max_wal_senders": "4",
    "wal_keep_size": "512MB",
    "wal_sender_timeout": "5s",
    "wal_receiver_timeout": "5s",
    "wal_retrieve_retry_interval": "500ms",
    "hot_standby_feedback": "on",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "log_checkpoints": "off",
}
_POOLER = """
[databases]
fairshare = host={primary} dbname=fairshare user=fairshare
fairshare_ro = host={replica} dbname=fairshare user=fairshare
[pgbouncer]
listen_addr = *
listen_port = {port}
auth_type = any
pool_mode = transaction
default_pool_size = 30
max_client_conn = 500
server_login_retry = 1
server_connect_timeout = 3
query_wait_timeout = 10
tcp_keepidle = 3
tcp_keepintvl = 1
tcp_keepcnt = 3
tcp_user_timeout = 5000
unix_socket_dir =
log_connections = 0
log_disconnections = 0
"""
_RABBIT = "loopback_users.guest = false\nlisteners.tcp.default = 5672\nlog.console = true\nlog.file = false\n"


# Each line is a program. A connection may have died with its server.
_SHELL = """
import json, sys
from django.db import connections
for line in sys.stdin:
    exec(json.loads(line), {})
    connections.close_all()
    print("done", flush=True)
"""


class Postgres:
    """One server. `cluster` decides which is the primary."""

    def __init__(self, host: Host) -> None:
        self.host, self.data = host, host.folder / "pg"
        self._binaries = find_binaries()

    def make(self) -> None:
        self.run("initdb", "-D", str(self.data), "-U", "fairshare", "--auth=trust", "-E", "UTF8", "--no-sync")
        (self.data / "pg_hba.conf").write_text(_HBA)
        self.start()
        with self.connect("postgres") as connection:
            connection.execute("CREATE DATABASE fairshare")

    def copy(self, primary: Postgres) -> None:
        """Begin anew as its replica."""
        shutil.rmtree(self.data, ignore_errors=True)
        source = ("-h", primary.host.address, "-U", "fairshare", "-X", "stream", "-R", "-c", "fast", "--no-sync")
        self.run("pg_basebackup", "-D", str(self.data), *source)
        (self.data / "postgresql.auto.conf").write_text(
            "".join(
                line
                for line in (self.data / "postgresql.auto.conf").read_text().splitlines(keepends=True)
                if not line.startswith("synchronous_standby_names")
            )
        )
        self.start()

    def start(self) -> None:
        options = [part for name, value in _OPTIONS.items() for part in ("-c", f"{name}={value}")]
        command = [*_UNPRIVILEGED, str(self._binaries / "postgres"), "-D", str(self.data), "-k", str(self.host.folder)]
        self.host.start("postgres", [*command, *options])
        eventually(self.answers, f"PostgreSQL on {self.host.name}")

    def run(self, program: str, *arguments: str) -> None:
        self.host.run(*_UNPRIVILEGED, str(self._binaries / program), *arguments, environment={})

    def kill(self, *, restart: bool) -> None:
        self.host.kill("postgres", restart=False, program="postgres")
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        if restart:
            self.host.restart("postgres")
            eventually(self.answers, f"PostgreSQL on {self.host.name}")

    def connect(self, database: str = "fairshare") -> psycopg.Connection[Any]:
        return psycopg.connect(
            host=self.host.address, user="fairshare", dbname=database, connect_timeout=2, autocommit=True
        )

    def answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError), self.connect("postgres"):
            return True
        return False

    def ask(self, statement: str) -> Any:
        with self.connect() as connection:
            return (connection.execute(statement).fetchone() or (None,))[0]


class Broker:
    """Redis or RabbitMQ."""

    def __init__(self, kind: str, host: Host) -> None:
        self.kind, self._host = kind, host
        self._data = host.folder / kind
        self._port = 6379 if kind == "redis" else 5672
        scheme = "redis://" if kind == "redis" else "amqp://guest:guest@"
        self.url = f"{scheme}{host.address}:{self._port}/{'0' if kind == 'redis' else '/'}"

    def start(self) -> None:
        self._data.mkdir(exist_ok=True)
        if self.kind == "redis":
            options = ["--port", str(self._port), "--bind", self._host.address, "--protected-mode", "no"]
            self._host.start(self.kind, ["redis-server", *options, "--save", "", "--dir", str(self._data)])
        else:
            configuration = self._data / "rabbitmq.conf"
            configuration.write_text(_RABBIT)
            environment = {
                "HOME": str(self._data),
                "RABBITMQ_MNESIA_BASE": str(self._data / "db"),
                "RABBITMQ_LOG_BASE": str(self._data),
                "RABBITMQ_CONFIG_FILE": str(configuration.with_suffix("")),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._data / "plugins"),
                "RABBITMQ_NODENAME": f"rabbit@{self._host.name}",
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1",
            }
            self._host.start(self.kind, ["/usr/lib/rabbitmq/bin/rabbitmq-server"], environment)
        eventually(self.answers, f"{self.kind} answers")

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self._host.address, self._port), 2) as link:
            if self.kind == "redis":
                link.sendall(b"PING\r\n")
                return link.recv(16).startswith(b"+PONG")
            link.sendall(b"AMQP\x00\x00\x09\x01")
            return bool(link.recv(16))
        return False

    def kill(self, *, restart: bool) -> None:
        self._host.kill(self.kind, restart=restart, program="redis-server" if self.kind == "redis" else "beam.smp")

    def restart(self) -> None:
        self._host.restart(self.kind)
        eventually(self.answers, f"{self.kind} answers again")

    def wipe(self) -> None:
        """All queues and their messages are gone."""
        if self.kind == "redis":
            with socket.create_connection((self._host.address, self._port), 5) as link:
                link.sendall(b"FLUSHALL\r\n")
                assert link.recv(16).startswith(b"+OK")
            return
        self.kill(restart=False)
        shutil.rmtree(self._data / "db")
        self.restart()

    def end(self) -> None:
        self.kill(restart=False)


class Cluster:
    """PostgreSQL on h1 and h2, web, worker and beat on both, pooler and broker on h3."""

    def __init__(self, hosts: Mapping[str, Host], folder: Path) -> None:
        self.hosts, self._folder = hosts, folder
        self.primary, self.replica = Postgres(hosts["h1"]), Postgres(hosts["h2"])
        self.broker: Broker | None = None
        self._shell: subprocess.Popen[str] | None = None
        self._uploads = folder / "uploads"  # what hosts share

    def make_database(self) -> None:
        self.primary.make()
        (self.hosts["h3"].folder / "pgbouncer.ini").touch()
        self._write_pooler()
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        configuration = str(self.hosts["h3"].folder / "pgbouncer.ini")
        self.hosts["h3"].start("pgbouncer", [*_UNPRIVILEGED, program, configuration])
        eventually(self.pooler_answers, "PgBouncer")

    def make_replica(self) -> None:
        self.replica.copy(self.primary)
        self.commit_on_both()

    def commit_on_both(self) -> None:
        """What is committed survives the primary; else a failover may lose what a sender has been told is stored."""
        eventually(
            lambda: self.primary.ask("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == 1,
            "the replica streams",
        )
        with self.primary.connect() as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")

    def _write_pooler(self) -> None:
        text = _POOLER.format(primary=self.primary.host.address, replica=self.replica.host.address, port=_POOL_PORT)
        (self.hosts["h3"].folder / "pgbouncer.ini").write_text(text)

    def pooled(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            f"postgres://fairshare@{address('h3')}:{_POOL_PORT}/fairshare",
            connect_timeout=3,
            autocommit=True,
            prepare_threshold=None,
        )

    def pooler_answers(self) -> bool:
        with contextlib.suppress(psycopg.Error), self.pooled() as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
        return False

    def fail_over(self) -> None:
        """As a cluster manager does when the primary is dead: promote, and lead the pooler to the new one."""
        self.primary.kill(restart=False)
        with self.replica.connect() as connection:
            connection.execute("SELECT pg_promote()")
        self.primary, self.replica = self.replica, self.primary
        self._write_pooler()
        for pid in self.hosts["h3"].pids("pgbouncer"):
            os.kill(pid, signal.SIGHUP)
        eventually(lambda: self.primary.ask("SELECT pg_is_in_recovery()") is False, "a new primary")

    def rejoin(self) -> None:
        """The old primary begins anew, as the replica of the new one."""
        self.make_replica()

    def environment(self, host: Host) -> dict[str, str]:
        assert self.broker is not None
        pooler = f"postgres://fairshare@{address('h3')}:{_POOL_PORT}"
        return {
            "FAIRSHARE_VAR": str(host.folder / "var"),
            "FAIRSHARE_PORT": str(WEB_PORT),
            "DATABASE_URL": f"{pooler}/fairshare",
            "FAIRSHARE_REPLICA_URL": f"{pooler}/fairshare_ro",
            "FAIRSHARE_POOLER": "yes",
            "CELERY_BROKER_URL": self.broker.url,
            "SECRET_KEY": "secret-key-of-the-cluster-" * 3,
            "FAIRSHARE_TOKEN_PEPPERS": "pepper-of-the-cluster-" * 3,
            "FAIRSHARE_PSEUDONYM_KEY": "pseudonyms-of-the-cluster-" * 3,
            "FAIRSHARE_ALLOWED_HOSTS": ",".join(address(name) for name in NAMES),
            "FAIRSHARE_METRICS_ADDRESSES": HUB,
            "FAIRSHARE_TICK_S": "5",
            "FAIRSHARE_LEASE_S": "20",
            "FAIRSHARE_WORKERS": "1",
            "FAIRSHARE_SWEEP_S": "2",
            "PYTHONUNBUFFERED": "1",
        }

    def manage(self, *arguments: str, host: str = "h1", timeout_s: float = 240) -> str:
        where = self.hosts[host]
        return where.run(
            sys.executable, "manage.py", *arguments, environment=self.environment(where), timeout_s=timeout_s
        )

    def prepare(self) -> None:
        """Tables, from the suite's dump of the schema, and the folder that hosts share."""
        schema = schema_folder() / f"{schema_digest()}.sql"
        self.primary.run("psql", "-h", self.primary.host.address, "-U", "fairshare", "-q", "-f", str(schema))
        self._uploads.mkdir()
        for name in ("h1", "h2"):
            var = self.hosts[name].folder / "var"
            var.mkdir(mode=0o700)
            (var / "uploads").symlink_to(self._uploads)

    def run(self, code: str) -> None:
        """This Python in a process of the product on h1, which is started once. It has failed if that ends."""
        if self._shell is None or self._shell.poll() is not None:
            host = self.hosts["h1"]
            command = host.inside(sys.executable, "manage.py", "shell", "--no-imports", "-v", "0", "-c", _SHELL)
            self._shell = subprocess.Popen(
                command,
                env={**own_environment(), **self.environment(host)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(json.dumps(code) + "\n")
        self._shell.stdin.flush()
        answer = self._shell.stdout.readline()
        assert answer == "done\n", answer

    def start_product(self) -> None:
        """With the settings of now, in place of what runs."""
        self.stop_product()
        if self._shell is not None:  # it has the settings of before
            self._shell.kill()
            self._shell.communicate()
            self._shell = None
        for name in ("h1", "h2"):
            host = self.hosts[name]
            environment = {**self.environment(host), **host.clock}
            for role in ("web", "worker", "beat"):
                more = ("--host", host.address) if role == "web" else ()
                command = [sys.executable, "manage.py", "serve", role, *more]
                host.start(role, command, environment)

    def stop_product(self) -> None:
        for name in ("h1", "h2"):
            for role in ("web", "worker", "beat"):
                if role in self.hosts[name].services:
                    self.hosts[name].kill(role, restart=False)

    def logs(self) -> str:
        """The end of each log, for a failed test."""
        ends = []
        for host in self.hosts.values():
            for name, service in host.services.items():
                lines = service.log.read_text(errors="replace").splitlines()[-12:]
                ends.append(f"--- {host.name} {name} (ended alone {service.n_ended} times)\n" + "\n".join(lines))
        return "\n".join(ends)
