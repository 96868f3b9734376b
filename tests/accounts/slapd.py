"""A real directory for tests: OpenLDAP on loopback with StartTLS, three people and two groups."""

from __future__ import annotations

import datetime as dt
import ipaddress
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.material import missing

SLAPD = shutil.which("slapd") or "/usr/sbin/slapd"
SCHEMA = Path("/etc/ldap/schema")
MODULES = Path("/usr/lib/ldap")
BASE = "dc=example,dc=org"
READER = f"cn=reader,{BASE}"
READER_PASSWORD = "reads the directory"
LDIF = f"""
dn: {BASE}
objectClass: domain
dc: example

dn: {READER}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: reader
userPassword: {READER_PASSWORD}

dn: ou=people,{BASE}
objectClass: organizationalUnit
ou: people

dn: ou=groups,{BASE}
objectClass: organizationalUnit
ou: groups

dn: uid=eva,ou=people,{BASE}
objectClass: inetOrgPerson
uid: eva
cn: Eva Kling
givenName: Eva
sn: Kling
mail: eva@example.org
userPassword: evas own

dn: uid=dag,ou=people,{BASE}
objectClass: inetOrgPerson
uid: dag
cn: Dag (holm) *
sn: Holm
userPassword: dags own

dn: cn=Second Eva,ou=people,{BASE}
objectClass: inetOrgPerson
uid: twin
cn: Second Eva
sn: One
userPassword: twins own

dn: cn=Third Eva,ou=people,{BASE}
objectClass: inetOrgPerson
uid: twin
cn: Third Eva
sn: Other
userPassword: twins own

dn: cn=HPC,ou=groups,{BASE}
objectClass: groupOfNames
cn: HPC
member: uid=eva,ou=people,{BASE}

dn: cn=posix,ou=groups,{BASE}
objectClass: posixGroup
cn: posix
gidNumber: 100
memberUid: eva
memberUid: dag
"""


@dataclass(frozen=True)
class Directory:
    url: str
    ca_file: Path
    folder: Path

    def change(self, ldif: str) -> None:
        """As its administrator."""
        command = ["ldapmodify", "-x", "-H", self.url, "-D", f"cn=root,{BASE}", "-w", "root"]
        subprocess.run(command, input=ldif.encode(), check=True, capture_output=True)


def run_directory(folder: Path) -> Iterator[Directory]:
    if not Path(SLAPD).exists() or not (MODULES / "back_mdb.so").exists() or not shutil.which("ldapmodify"):
        missing("no OpenLDAP server with its tools", "apt-get install slapd ldap-utils")
    ca_file = _certificates(folder)
    (folder / "data").mkdir()
    (folder / "slapd.conf").write_text(_configuration(folder), encoding="utf-8")
    subprocess.run(
        ["slapadd", "-f", str(folder / "slapd.conf")],
        input=LDIF.encode(),
        check=True,
        capture_output=True,
        env={"PATH": "/usr/sbin:/usr/bin:/bin"},
    )
    port = _free_port()
    url = f"ldap://127.0.0.1:{port}"
    server = subprocess.Popen(
        [SLAPD, "-h", url, "-f", str(folder / "slapd.conf"), "-d", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        _wait_for(port, server)
        yield Directory(url, ca_file, folder)
    finally:
        server.terminate()
        server.wait(10)


def _configuration(folder: Path) -> str:
    schemas = "\n".join(f"include {SCHEMA / name}.schema" for name in ("core", "cosine", "inetorgperson", "nis"))
    return f"""
{schemas}
modulepath {MODULES}
moduleload back_mdb
pidfile {folder / "slapd.pid"}
TLSCertificateFile {folder / "server.pem"}
TLSCertificateKeyFile {folder / "server.key"}
TLSCACertificateFile {folder / "ca.pem"}
database mdb
suffix "{BASE}"
rootdn "cn=root,{BASE}"
rootpw root
directory {folder / "data"}
maxsize 10485760
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{READER}" read by * none
"""


def _certificates(folder: Path) -> Path:
    """An authority of our own, and a server that it vouches for."""
    root = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _signed("Test authority", root, root, None)
    server = _signed("127.0.0.1", key, root, authority.subject)
    (folder / "ca.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(server.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    return folder / "ca.pem"


def _signed(
    name: str, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey, issuer: x509.Name | None
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is not None:
        names = [x509.IPAddress(ipaddress.ip_address(name)), x509.DNSName(name)]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(by, hashes.SHA256())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if server.poll() is not None:
            _out, found = server.communicate()
            raise AssertionError(f"slapd ended: {found.decode()[-500:]}")
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("slapd does not answer")
