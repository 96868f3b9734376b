"""The second step of sign-in: codes as apps make them, each of which holds once, and codes for when the app is lost."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.core.management import CommandError, call_command

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, User
from apps.accounts.sign_in import second_factor
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound

AT = datetime(2026, 11, 20, 12, 0, 10, tzinfo=UTC)
PERIOD = timedelta(seconds=second_factor.PERIOD_S)
SECRET = base64.b32encode(b"12345678901234567890").decode()


@pytest.fixture
def eva(db: None) -> User:
    return User.objects.create_user("eva", password="x")


def own(user: User) -> Actor:
    return Actor(user=user, via="page")


def add(user: User, *, at: datetime = AT) -> list[str]:
    code = second_factor.code_at(SECRET, at)
    return second_factor.add_second_factor(user=user, secret=SECRET, code=code, at=at, actor=own(user))


def check(user: User, code: str, *, at: datetime = AT) -> bool:
    return second_factor.check_second_factor(user=user, code=code, at=at, actor=own(user))


def verbs() -> list[str]:
    return list(AuditEvent.objects.order_by("id").values_list("verb", flat=True))


# The last six of the eight digits that RFC 6238, appendix B, gives for SHA-1.
@pytest.mark.parametrize(
    ("second", "code"),
    [
        (59, "287082"),
        (1111111109, "081804"),
        (1111111111, "050471"),
        (1234567890, "005924"),
        (2000000000, "279037"),
        (20000000000, "353130"),
    ],
)
def test_codes_equal_the_standard(second: int, code: str) -> None:
    assert second_factor.code_at(SECRET, datetime.fromtimestamp(second, UTC)) == code


def test_a_secret_has_160_random_bits() -> None:
    secrets = {second_factor.new_secret() for _ in range(50)}
    assert len(secrets) == 50
    assert {len(base64.b32decode(secret)) for secret in secrets} == {20}


def test_setup_needs_a_code_and_gives_ten_recovery_codes(eva: User) -> None:
    assert not second_factor.has_second_factor(eva)
    codes = add(eva)
    assert second_factor.has_second_factor(eva)
    assert len(set(codes)) == second_factor.n_codes_left(eva) == 10
    assert all(len(code) == 8 and code.isdigit() for code in codes)
    assert verbs() == ["user.second_factor_added"]
    with pytest.raises(Conflict):
        add(eva)


@pytest.mark.parametrize("code", ["", "000000", "abcdef", "１２３４５６", "-1"])
def test_a_wrong_code_does_not_complete_the_setup(eva: User, code: str) -> None:
    if code == second_factor.code_at(SECRET, AT):
        pytest.fail("this is the right one")
    with pytest.raises(Invalid) as refusal:
        second_factor.add_second_factor(user=eva, secret=SECRET, code=code, at=AT, actor=own(eva))
    assert refusal.value.fields[0].where == "code"
    assert not Authenticator.objects.exists()
    assert verbs() == []


def test_a_code_is_valid_one_period_around_and_once(eva: User) -> None:
    add(eva, at=AT - 10 * PERIOD)
    for offset, fits in ((-2, False), (2, False), (-1, True), (-1, False), (1, True), (0, False), (1, False)):
        assert check(eva, second_factor.code_at(SECRET, AT + offset * PERIOD)) is fits, offset
    assert check(eva, second_factor.code_at(SECRET, AT + 2 * PERIOD), at=AT + PERIOD)


def test_the_setup_code_cannot_sign_in(eva: User) -> None:
    add(eva)
    assert not check(eva, second_factor.code_at(SECRET, AT))
    assert check(eva, second_factor.code_at(SECRET, AT + PERIOD), at=AT + PERIOD)


def test_codes_with_blanks_are_accepted(eva: User) -> None:
    recovery = add(eva)[3]
    code = second_factor.code_at(SECRET, AT + PERIOD)
    assert check(eva, f" {code[:3]} {code[3:]}\n", at=AT + PERIOD)
    assert check(eva, f"{recovery[:4]}-{recovery[4:]}", at=AT + PERIOD)


def test_a_recovery_code_is_valid_once_and_audited(eva: User) -> None:
    first, second, *_ = add(eva)
    assert check(eva, first)
    assert not check(eva, first)
    assert check(eva, second)
    assert second_factor.n_codes_left(eva) == 8
    used = AuditEvent.objects.filter(verb="user.recovery_code_used").order_by("id")
    assert [event.details for event in used] == [{"n_left": 9}, {"n_left": 8}]


def test_new_recovery_codes_replace_the_old_ones_and_need_a_code(eva: User) -> None:
    old = add(eva)
    with pytest.raises(Invalid):
        second_factor.renew_recovery_codes(user=eva, code="000000", at=AT, actor=own(eva))
    new = second_factor.renew_recovery_codes(user=eva, code=old[0], at=AT, actor=own(eva))
    assert not set(new) & set(old)
    assert not check(eva, old[1])
    assert check(eva, new[1])
    assert "user.recovery_codes_renewed" in verbs()


def test_after_twenty_wrong_codes_none_is_accepted_for_an_hour(eva: User) -> None:
    right = add(eva)[0]
    for _n in range(20):
        assert not check(eva, "000000")
    with pytest.raises(NotAllowed) as refusal:
        check(eva, right)
    assert refusal.value.code == "too_many_codes"
    assert second_factor.n_codes_left(eva) == 10
    closed = AuditEvent.objects.get(verb="user.second_factor_closed")
    assert (closed.outcome, closed.subject) == ("refused", "eva")
    assert check(eva, right, at=AT + timedelta(hours=1))


def test_a_correct_code_resets_the_wrong_ones(eva: User) -> None:
    codes = add(eva)
    for right in codes[:3]:
        for _n in range(19):
            check(eva, "000000")
        assert check(eva, right)


def test_its_owner_removes_it_with_a_code(eva: User) -> None:
    codes, other = add(eva), User.objects.create_superuser("admin")
    for actor in (own(other), COMMAND):
        with pytest.raises(NotAllowed):
            second_factor.remove_second_factor(user=eva, code=codes[0], at=AT, actor=actor)
    with pytest.raises(Invalid):
        second_factor.remove_second_factor(user=eva, code="nope", at=AT, actor=own(eva))
    second_factor.remove_second_factor(user=eva, code=codes[0], at=AT, actor=own(eva))
    assert not Authenticator.objects.exists()
    assert verbs()[-1] == "user.second_factor_removed"
    assert not check(eva, codes[1])


def test_secrets_are_encrypted_and_readable_with_a_previous_key(eva: User, settings: Any) -> None:
    codes, key = add(eva), settings.SECRET_KEY
    assert SECRET not in str([row.data for row in Authenticator.objects.all()])
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another-key" * 8, [key]
    assert check(eva, second_factor.code_at(SECRET, AT + PERIOD))
    settings.SECRET_KEY_FALLBACKS = []
    assert not check(eva, second_factor.code_at(SECRET, AT + 3 * PERIOD), at=AT + 3 * PERIOD)
    assert not check(eva, codes[0])


def test_operators_remove_the_second_factor_of_a_locked_out_user(eva: User, capsys: pytest.CaptureFixture[str]) -> None:
    add(eva)
    with pytest.raises(NotAllowed):
        second_factor.forget_second_factor(username="eva", at=AT, actor=own(eva))
    call_command("forget_second_factor", "eva")
    assert "eva" in capsys.readouterr().out
    assert not second_factor.has_second_factor(eva)
    removed = AuditEvent.objects.get(verb="user.second_factor_removed")
    assert (removed.actor_name, removed.via, removed.subject) == ("system", "command", "eva")
    for name in ("eva", "nobody"):
        with pytest.raises(CommandError, match=name) as refused:
            call_command("forget_second_factor", name)
        assert isinstance(refused.value.__cause__, NotFound)
    with pytest.raises(NotFound):
        second_factor.forget_second_factor(username="eva", at=AT, actor=COMMAND)


def test_sites_can_require_it_of_administrators(eva: User, settings: Any) -> None:
    admin = User.objects.create_superuser("admin")
    assert not second_factor.needs_second_factor(admin)
    settings.FAIRSHARE_MFA_FOR_ADMINS = True
    assert second_factor.needs_second_factor(admin)
    assert not second_factor.needs_second_factor(eva)


def test_codes_are_those_of_the_standard_and_of_stored_seeds() -> None:
    """RFC 6238, appendix B; and ten codes that allauth.mfa made of a seed, which sites have stored."""
    for second, code in ((59, "287082"), (1111111109, "081804"), (20000000000, "353130")):
        assert second_factor.code_at(SECRET, datetime.fromtimestamp(second, UTC)) == code
    codes = "56444510 14918153 00650082 94172370 68715415 78463947 41401608 87701960 98837806 80227481"
    assert second_factor._codes_of("0f" * 40) == codes.split()
