"""What an import leaves for exports: the cluster's name, and the dump with what no policy has."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, User
from apps.core.clock import now
from apps.core.errors import Invalid
from apps.policies.files.exports import Export, export_policy
from apps.policies.files.import_export import FileImport, PolicyImport, import_policy
from apps.policies.models import ChangeSet, Grant, ImportedFile, Policy
from apps.policies.publishing.direct import publish_operations
from apps.policies.records import PolicyDetails
from apps.policies.services import make_policy, publish_change_set, withdraw_change_set
from apps.policies.tree.stored import load_tree
from tests.grants import make_grant

pytestmark = pytest.mark.django_db


@pytest.fixture
def dump(golden_dir: Path) -> str:
    make_policy(
        slug="site", name="Site", details=PolicyDetails(visibility=Policy.Visibility.TREE), at=now(), actor=COMMAND
    )
    return (golden_dir / "slurm/samples/sacctmgr-dump-demo.cfg").read_text()


def take(text: str, *, publish: bool = True, actor: Actor = COMMAND, format: str = "sacctmgr") -> PolicyImport:
    return import_policy(
        file=FileImport(policy_slug="site", format=format, content=text.encode()),
        publish=publish,
        reason="r",
        at=now(),
        actor=actor,
    )


def exported(format: str = "sacctmgr", actor: Actor = COMMAND, cluster: str = "", against: str | None = None) -> Export:
    state = None if against is None else against.encode()
    return export_policy(policy_slug="site", format=format, against=state, cluster=cluster, at=now(), actor=actor)


def person(role: str) -> Actor:
    user = User.objects.create_user(username=role, password="x")
    policy = Policy.objects.get(slug="site")
    make_grant(user, load_tree(policy).uuid(0), role, policy=policy, at=now())
    return Actor(user=user, via="page")


def test_a_dump_round_trips_byte_for_byte(dump: str) -> None:
    take(dump)
    assert exported().text() == dump
    assert "add cluster Name=demo Fairshare=1" in exported("sacctmgr-script").text().splitlines()
    assert exported(cluster="fram").text() == dump.replace("Cluster - 'demo'", "Cluster - 'fram'")


def test_a_second_import_of_the_new_dump_changes_nothing(dump: str) -> None:
    take(dump)
    operation = {"op": "set_shares", "entry": "/physics/hep", "shares": 5}
    publish_operations(policy_slug="site", operations=[operation], reason="r", at=now(), actor=COMMAND)
    new = exported(against=dump)
    lines = zip(dump.splitlines(), new.text().splitlines(), strict=True)
    assert [(a[-11:], b[-11:]) for a, b in lines if a != b] == [("Fairshare=3", "Fairshare=5")]
    assert exported("sacctmgr-script", against=dump).text().splitlines()[1:] == [
        "modify account where name=hep cluster=demo set fairshare=5"
    ]
    assert exported().text() == new.text()
    again = take(new.text())
    assert again.plan.is_empty
    assert again.change_set is None


def test_limits_changed_only_in_slurm_are_kept(dump: str) -> None:
    take(dump)
    other = dump.replace("MaxJobs=50", "MaxJobs=60")
    assert take(other).plan.is_empty
    assert exported().text() == other
    assert ImportedFile.objects.count() == 1
    details = AuditEvent.objects.filter(verb="policy.file_kept").latest("id").details
    assert (details["cluster"], details["n_bytes"]) == ("demo", len(other))


def test_the_file_of_a_draft_counts_once_the_draft_is_published(dump: str) -> None:
    take(dump)
    other = dump.replace("MaxJobs=50", "MaxJobs=60").replace("Fairshare=40", "Fairshare=41")
    draft = take(other, publish=False).change_set
    assert draft is not None
    assert exported().text() == dump
    publish_change_set(id=draft.pk, version=draft.version, reason="r", at=now(), actor=COMMAND)
    assert exported().text() == other
    discarded = take(dump, publish=False).change_set
    assert discarded is not None
    withdraw_change_set(id=discarded.pk, version=discarded.version, at=now(), actor=COMMAND)
    assert exported().text() == other


def test_entries_renamed_since_keep_their_lines_at_every_revision(dump: str) -> None:
    take(dump)
    operation = {"op": "rename", "entry": "/biology", "name": "life"}
    publish_operations(policy_slug="site", operations=[operation], reason="r", at=now(), actor=COMMAND)
    new = exported().text()
    expected = dump.replace("'biology'", "'life'")
    assert new.startswith(expected)
    assert new.removeprefix(expected).splitlines() == [
        "# not in the policy: remove user where name=carol account=biology cluster=demo",
        "# not in the policy: remove account where name=biology cluster=demo",
    ]
    assert take(new).plan.is_empty
    before = export_policy(policy_slug="site", format="sacctmgr", moment=2, at=now(), actor=COMMAND)
    assert "Account - 'biology':Description='biology dept':Organization='science'" in before.text()


def test_the_stored_dump_needs_the_right_to_publish_the_whole_policy(dump: str) -> None:
    """The reader of an export trusts it: a line AdminLevel='Administrator' must not come from any user."""
    take(dump)
    lead = person(Grant.Role.VIEWER)
    evil = dump.replace("User - 'carol'", "User - 'carol':AdminLevel='Administrator'").replace("=40", "=41")
    draft = take(evil, publish=False, actor=lead).change_set
    assert draft is not None
    publish_change_set(id=draft.pk, version=draft.version, reason="r", at=now(), actor=COMMAND)
    assert exported().text() == dump.replace("Fairshare=40", "Fairshare=41")
    assert take(evil.replace("=41", "=41"), publish=False, actor=lead).plan.is_empty
    assert "carol':AdminLevel" not in exported().text()
    assert "Organization" not in exported(actor=lead).text()
    assert "Cluster - 'demo'" in exported(actor=lead).text()


def test_the_dump_of_a_manager_is_stored(dump: str) -> None:
    take(dump, actor=person(Grant.Role.MANAGER), publish=False)
    draft = ChangeSet.objects.get(state="draft")
    publish_change_set(id=draft.pk, version=draft.version, reason="r", at=now(), actor=COMMAND)
    assert exported().text() == dump


def test_a_script_stores_the_name_of_the_cluster(dump: str) -> None:
    take("add cluster saga\nadd account physics Fairshare=60\n", format="sacctmgr-script")
    assert exported("sacctmgr-script").text().splitlines() == [
        "# site revision 2; run: grep -v '^#' FILE | sacctmgr -i",
        "# Leave out the first command if Slurm has the cluster already: sacctmgr would end with status 1",
        "add cluster Name=saga Fairshare=1",
        "add account Name=physics Parent=root Cluster=saga Fairshare=60",
    ]


def test_every_command_of_a_script_names_the_cluster(dump: str) -> None:
    take(dump)
    for cluster in ("demo", "fram"):
        lines = exported("sacctmgr-script", cluster=cluster).text().splitlines()
        commands = [line for line in lines if not line.startswith("#")]
        assert len(commands) == 9
        assert commands[0] == f"add cluster Name={cluster} Fairshare=1"
        assert [line for line in commands[1:] if f" Cluster={cluster} " not in line] == []
        # Slurm makes its user root with the cluster: adding it again would end with status 1.
        assert [line for line in commands if "Name=root" in line] == [
            f"modify user where Name=root Account=root Cluster={cluster} set Fairshare=1"
        ]


def test_without_a_known_cluster_a_script_is_refused_and_the_remedy_named(dump: str) -> None:
    take("add account physics Fairshare=60\n", format="sacctmgr-script")
    with pytest.raises(Invalid, match=r"No cluster is known for site: name it \(--cluster NAME") as refusal:
        exported("sacctmgr-script").pieces()
    assert refusal.value.code == "no_cluster"
    lines = exported("sacctmgr-script", cluster="fram").text().splitlines()
    assert lines[-1] == "add account Name=physics Parent=root Cluster=fram Fairshare=60"


def test_user_names_with_capital_letters_come_back_with_them(dump: str) -> None:
    take(dump.replace("'carol'", "'Carol'"))
    script = exported("sacctmgr-script").text()
    assert "# User names with capital letters need Parameters=PreserveCaseUser in slurmdbd.conf" in script
    assert take(script, format="sacctmgr-script").plan.is_empty


@pytest.mark.parametrize("name", ["a b", "x'y", "saga\nremove account root", "ö", "x" * 129])
def test_a_cluster_name_is_valid_in_slurm(dump: str, name: str) -> None:
    with pytest.raises(Invalid, match="cluster"):
        exported(cluster=name)


def test_the_dump_of_another_cluster_is_refused_until_it_is_named(dump: str) -> None:
    take(dump)
    other = dump.replace("'demo'", "'saga'")
    with pytest.raises(Invalid, match="of the cluster saga, and the policy of demo"):
        exported("sacctmgr-script", against=other).text()
    assert exported("sacctmgr-script", against=other, cluster="saga").text().splitlines()[1:] == []
    with pytest.raises(Invalid, match="contains no cluster name"):
        exported("csv", cluster="saga")


def test_a_truncated_dump_is_not_imported(dump: str) -> None:
    take(dump)
    half = dump[: dump.index("Parent - 'biology'")]
    with pytest.raises(Invalid, match=r"lacks 5 of 9 entries, and everything below /biology, /physics: .*cut off"):
        take(half)
    with pytest.raises(Invalid, match="no line end: the dump is cut off there"):
        take(dump[:-20])
    assert Policy.objects.get().head_number == 2
