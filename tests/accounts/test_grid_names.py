"""DNs in whatever spelling, and FQANs with and without what says nothing, are one name."""

from __future__ import annotations

import unicodedata
from datetime import datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.accounts.account_ids import account_ids
from apps.accounts.account_keys import AccountKey, canonical
from apps.accounts.grid_names import canonical_dn, canonical_fqan, common_name, group_of_fqan, is_dn
from apps.accounts.models import Account
from tests.each_case import each_case

KIM = "/C=SE/O=NorduGrid/CN=Kim Svan"
# Every way in which each type may be written, the kept one first.
SPELLED = {
    "CN": ("CN", "cn", "commonName", "2.5.4.3", "OID.2.5.4.3"),
    "O": ("O", "o", "organizationName"),
    "DC": ("DC", "dc", "domainComponent", "0.9.2342.19200300.100.1.25"),
    "emailAddress": ("emailAddress", "E", "EMAIL", "1.2.840.113549.1.9.1"),
    "UID": ("UID", "userId"),
    "ST": ("ST", "S", "stateOrProvinceName"),
}
values = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), min_size=1, max_size=12
)
pairs = st.tuples(st.sampled_from(sorted(SPELLED)), values.map(lambda text: unicodedata.normalize("NFC", text)))
names = st.lists(st.lists(pairs, min_size=1, max_size=2, unique_by=lambda pair: pair[0]), min_size=1, max_size=5)


@pytest.mark.parametrize(
    "spelled",
    [
        "CN=Kim Svan,O=NorduGrid,C=SE",
        "cn=Kim Svan, o=NorduGrid, c=SE",
        "CN = Kim Svan ; O = NorduGrid ; C = SE",
        'CN="Kim Svan",O=NorduGrid,C=SE',
        "2.5.4.3=Kim Svan,organizationName=NorduGrid,countryName=SE",
        "CN=Kim\\20Svan,O=NorduGrid,C=SE",
        "CN=#0C084B696D205376616E,O=NorduGrid,C=SE",
        "/c=SE/o=NorduGrid/cn=Kim Svan",
        "/C=SE/O=NorduGrid/CN=Kim\\x20Svan",
        f" {KIM} ",
    ],
)
def test_every_spelling_of_a_dn_is_normalised(spelled: str) -> None:
    assert canonical_dn(spelled) == KIM


@each_case(
    ("spelled", "kept"),
    [
        ("/DC=org/CN=host/node1.example.org", "/DC=org/CN=host/node1.example.org"),
        ("CN=host/node1.example.org,DC=org", "/DC=org/CN=host/node1.example.org"),
        ("E=kim@example.org,CN=Svan\\, Kim", "/CN=Svan, Kim/emailAddress=kim@example.org"),
        ("/CN=Svan, Kim/Email=kim@example.org", "/CN=Svan, Kim/emailAddress=kim@example.org"),
        ("UID=7+CN=Kim,O=x", "/O=x/CN=Kim+UID=7"),
        ("CN=J\\C3\\A9r\\C3\\B4me,O=x", "/O=x/CN=Jérôme"),
        ("/O=x/CN=J\\xC3\\xA9r\\xC3\\xB4me", "/O=x/CN=Jérôme"),
        ("/O=x/CN=J\\xE9r", "/O=x/CN=Jér"),
        ("CN=a\\\\b,O=x", "/O=x/CN=a\\\\b"),
        ("/O=x/CN=DOMAIN\\adam", "/O=x/CN=DOMAIN\\\\adam"),
        ("CN=a/O=b,O=x", "/O=x/CN=a\\/O=b"),
        ("1.2.3.4=a,O=x", "/O=x/1.2.3.4=a"),
        ("/CN=", "/CN="),
        ("alice", "alice"),
        ("no, dn=x", "no, dn=x"),
        ("CN=a,", "CN=a,"),
    ],
)
def test_escaped_values_are_decoded(spelled: str, kept: str) -> None:
    assert canonical_dn(spelled) == kept
    assert canonical_dn(kept) == kept


def test_different_values_stay_distinct() -> None:
    spelled = ["CN=Kim", "CN=kim", "CN=Kim,O=x", "O=x,CN=Kim", "CN=a\\,O=x", "CN=a,O=x", "CN=a\\+O=x", "CN=a+O=x"]
    assert len({canonical_dn(text) for text in spelled}) == len(spelled)


@given(names, st.data())
def test_both_spellings_of_any_dn_normalise_to_one(name: list[list[tuple[str, str]]], data: st.DataObject) -> None:
    def typed(kind: str) -> str:
        return data.draw(st.sampled_from(SPELLED[kind]))

    commas = ",".join("+".join(f"{typed(kind)}={_by_rfc(value)}" for kind, value in part) for part in reversed(name))
    slashes = "".join("/" + "+".join(f"{typed(kind)}={_in_line(value)}" for kind, value in part) for part in name)
    kept = canonical_dn(commas)
    assert canonical_dn(slashes) == kept
    assert canonical_dn(kept) == kept
    assert "\0" not in kept


def _by_rfc(value: str) -> str:
    return "".join(f"\\{one}" if one in ',+"\\<>;=#/' else one for one in value)


def _in_line(value: str) -> str:
    """As OpenSSL prints it: what isn't plain as bytes, and here also what would begin a part."""
    return "".join(
        one if one.isascii() and one not in "/+\\" else "".join(f"\\x{byte:02X}" for byte in one.encode())
        for one in value
    )


@given(st.text(max_size=80))
@example("0\r/")
@example("/x/Role=NULL /Capability=NULL")
def test_normalisation_is_idempotent_for_any_text(text: str) -> None:
    assert canonical_dn(canonical_dn(text)) == canonical_dn(text)
    assert canonical_fqan(canonical_fqan(text)) == canonical_fqan(text)


@given(st.text(alphabet='/CNO=,+\\" #x20aé;', max_size=40))
def test_incomplete_dns_are_normalised(text: str) -> None:
    assert canonical_dn(canonical_dn(text)) == canonical_dn(text)


def test_only_unambiguous_names_are_recognised_as_dns() -> None:
    assert is_dn(KIM)
    assert is_dn("CN=Kim,O=x")
    assert not any(is_dn(text) for text in ("alice", "a=b", "a=b,c=d", "/atlas", "/atlas/Role", "x@y.org"))
    assert (common_name(KIM), common_name("O=x"), common_name("alice")) == ("Kim Svan", "", "")


@pytest.mark.parametrize(
    ("spelled", "kept", "group"),
    [
        ("/atlas/Role=NULL/Capability=NULL", "/atlas", "/atlas"),
        ("/atlas/de/Role=NULL", "/atlas/de", "/atlas/de"),
        ("/atlas/Role=production/Capability=NULL", "/atlas/Role=production", "/atlas"),
        ("/atlas//de/role=pilot/", "/atlas/de/Role=pilot", "/atlas/de"),
        ("/atlas/Role=NULLIFIER", "/atlas/Role=NULLIFIER", "/atlas"),
        ("/atlas", "/atlas", "/atlas"),
    ],
)
def test_an_fqan_is_stored_without_null_parts(spelled: str, kept: str, group: str) -> None:
    assert canonical_fqan(spelled) == kept
    assert group_of_fqan(kept) == group


@pytest.mark.django_db
def test_two_spellings_are_one_account_and_two_groups_are_two(at: datetime) -> None:
    slashes = AccountKey("arc", "", "", KIM, "/bio/Role=NULL/Capability=NULL")
    commas = AccountKey("arc", "", "", "CN=Kim Svan,O=NorduGrid,C=SE", "/bio")
    other_group = commas._replace(fqan="/bio/Role=lead")
    as_user = AccountKey("arc", "cn=Kim Svan,o=NorduGrid,c=SE", "physics"), AccountKey("arc", KIM, "physics")
    found = account_ids([slashes, commas, other_group, *as_user], at=at)
    assert found[slashes] == found[commas] != found[other_group]
    assert found[as_user[0]] == found[as_user[1]]
    assert Account.objects.count() == 3
    assert Account.objects.get(pk=found[slashes]).dn == KIM


def test_a_name_that_would_become_too_long_is_unchanged() -> None:
    long = "/CN=" + "\\a" * 500
    key = AccountKey("arc", dn=long)
    assert len(canonical_dn(long)) > 1024
    assert canonical(key) == key
