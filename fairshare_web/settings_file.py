"""FAIRSHARE_CONFIG: a file of settings that the service and every command beside it read alike.

Lines are `NAME=value`, as systemd's `EnvironmentFile=` and Docker's `--env-file` have them. What the environment says
of a name wins over the file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Mapping, MutableMapping
from difflib import get_close_matches
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

VARIABLE = "FAIRSHARE_CONFIG"
_EARLY = ("FAIRSHARE_VAR", "PG_BIN")  # read outside of the settings
_PREFIX = "FAIRSHARE_"
# Names that other programs read from the same environment.
OF_OTHERS = {
    *("FAIRSHARE_TOKEN", "FAIRSHARE_SITE_URL", "FAIRSHARE_POLICY"),  # the client for terminals and its call-out
    *(
        "FAIRSHARE_HOST",
        "FAIRSHARE_IMAGE",
        "FAIRSHARE_EXTRAS",
        "FAIRSHARE_MEMORY",
        "FAIRSHARE_POSTGRES_MEMORY",
    ),  # Compose
    *("FAIRSHARE_REQUIRE_ALL", "FAIRSHARE_SHOTS", "FAIRSHARE_FAULT_RECORDS", "FAIRSHARE_REFERENCE_FOLDER"),  # the suite
    *("FAIRSHARE_TESTS_END_S", "FAIRSHARE_CLUSTER_FAULTS", "FAIRSHARE_CLUSTER_SPEED"),  # the suite
    *("FAIRSHARE_ROOTS", "FAIRSHARE_SLURM_RELEASE", "FAIRSHARE_STARTS_MINUTES", "FAIRSHARE_STARTS_SEED"),  # the suite
}
# What Kubernetes and links of Docker add for each service whose name begins so, behind the name.
_OF_SERVICE = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?|NAME|ENV_\w+)")
_ADDRESS = re.compile(r"(tcp|udp|sctp)://")  # value of the variable of its port, which no setting has
_READ = re.compile(r'\benv_\w+\(\s*"([A-Z_]+)"')
_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
SECRET_NAMES = re.compile(r"PASSWORD|CLIENT_SECRET|SECRET_KEY|PEPPERS|PSEUDONYM_KEY")
_PASSWORD_IN_URL = re.compile(r"://[^/@]*:[^/@]+@")


def read_settings_file(environ: MutableMapping[str, str] = os.environ) -> None:
    """Adds the settings of the file that FAIRSHARE_CONFIG names to the environment; nothing where it names none.

    Raises:
        ImproperlyConfigured: the file can't be read, a line is wrong, a name is unknown or given twice; others may
            write to the file, or may read it although it holds a secret.
    """
    path = environ.get(VARIABLE)
    if not path:
        return
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            values = _parsed(path, file.read())
    except OSError as error:
        raise ImproperlyConfigured(f"{VARIABLE}={path} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ImproperlyConfigured(f"{VARIABLE}={path} isn't UTF-8.") from error
    _refuse_open(path, mode, values)
    for name, value in values.items():
        bare = name.removesuffix("_FILE")
        if not {name, bare, f"{bare}_FILE"} & environ.keys():
            environ[name] = value


def forget_services(environ: MutableMapping[str, str] = os.environ) -> None:
    """Remove the variables that Kubernetes or a link of Docker adds for services of other names, such as fairshare-db.

    A service is known by NAME_PORT, which holds an address such as tcp://10.0.0.7:5432, or by NAME_SERVICE_HOST beside
    NAME_SERVICE_PORT. A setting of such a name stays, unless it holds an address.
    """
    known = known_names()
    ours = [name for name in environ if name.startswith(_PREFIX)]
    services = {name.removesuffix("_PORT") for name in ours if name.endswith("_PORT") and _ADDRESS.match(environ[name])}
    hosts = {name.removesuffix("_SERVICE_HOST") for name in ours if name.endswith("_SERVICE_HOST")}
    services |= {service for service in hosts if f"{service}_SERVICE_PORT" in environ}
    for name in ours:
        is_added = any(name.startswith(service) and _OF_SERVICE.fullmatch(name[len(service) :]) for service in services)
        if is_added and (name not in known or _ADDRESS.match(environ[name])):
            del environ[name]


def refuse_unknown_names(environ: Mapping[str, str] = os.environ) -> None:
    """Raises ImproperlyConfigured for a variable of the environment that nothing reads: most likely a typing error."""
    known = known_names() | {VARIABLE} | OF_OTHERS
    unknown = [name for name in sorted(environ) if name.startswith(_PREFIX) and name not in known]
    if unknown:
        raise ImproperlyConfigured(f"The environment has {', '.join(_not_known(name, known) for name in unknown)}.")


def _not_known(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, 1)
    return f"{name}, which is no setting" + (f" (did you mean {near[0]}?)" if near else "")


def known_names() -> set[str]:
    """Every variable that the settings read, and each with `_FILE`."""
    read = _READ.findall(Path(__file__).with_name("settings.py").read_text(encoding="utf-8"))
    return {*_EARLY, *read, *(f"{name}_FILE" for name in read)}


def _parsed(path: str, text: str) -> dict[str, str]:
    known = known_names()
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if not match:
            raise _wrong(path, number, "isn't NAME=value")
        name, value = match[1], match[2]
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise _wrong(path, number, f"{name} is no setting" + (f"; did you mean {near[0]}?" if near else ""))
        if name in values:
            raise _wrong(path, number, f"{name} is given twice")
        is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        values[name] = value[1:-1] if is_quoted else value
    return values


def _refuse_open(path: str, mode: int, values: dict[str, str]) -> None:
    if mode & stat.S_IWOTH:
        raise ImproperlyConfigured(f"{VARIABLE}={path} may be written by others ({mode:04o}): run chmod o-w {path}.")
    secrets = [
        name
        for name, value in values.items()
        if _PASSWORD_IN_URL.search(value) or (SECRET_NAMES.search(name) and not name.endswith("_FILE"))
    ]
    if secrets and mode & stat.S_IROTH:
        raise ImproperlyConfigured(
            f"{VARIABLE}={path} holds {', '.join(secrets)} and may be read by others ({mode:04o}): "
            f"run chmod 0600 {path}, or name a file with {secrets[0]}_FILE."
        )


def _wrong(path: str, line: int, problem: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"{VARIABLE}={path}, line {line}: {problem}.")
