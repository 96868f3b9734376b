"""A site's tree as `sacctmgr dump` of each release writes it, by the rules of its source."""

from __future__ import annotations

RELEASES = ("20.11", "21.08", "22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11")

# The comments of Slurm's own dump, some of them shortened.
_HEAD = """\
# To edit this file start with a cluster line for the new cluster
# Cluster - 'cluster_name':MaxTRESPerJob=node=50
# Followed by Accounts you want in this fashion (root is created by default)...
# Parent - 'root'
# Account - 'cs':MaxTRESPerJob=node=5:FairShare=399:Description='Computer Science':Organization='LC'
# Any of the options after a ':' can be left out and they can be in any order.
# If you want to add any sub accounts just list the Parent before the account line in this fashion...
# Parent - 'cs'
# Account - 'test':MaxTRESPerJob=node=1:FairShare=1:MaxWallDuration=1:Description='Test Account':Organization='Test'
# To add users to a account add a line like this after a Parent - 'line'
# User - 'lipari':MaxTRESPerJob=node=2:FairShare=1:MaxWallDurationPerJob=1
"""
_QOS = """\
QOS - 'normal':Description='Normal QOS default':GraceTime=0:Priority=0:UsageFactor=1.000000
QOS - 'long':Description='long: a week':Flags='DenyOnLimit,NoDecay':GraceTime=60:GrpTRES=cpu=64,gres/gpu:a100=4:\
MaxWallDurationPerJob=10080:Preempt='normal':PreemptMode=cluster:Priority=5:UsageFactor=0.500000
"""
SHARES = {
    "/root": 1,
    "/bio": 40,
    "/hep": 60,
    "/bio/carol": None,
    "/hep/ann": 2,
    "/hep/ann:gpu": 9,
    "/hep/atlas": None,
    "/hep/atlas/ann": 3,
    "/hep/atlas/ben": 0,
}


def dump(release: str) -> str:
    """Users come before accounts, each in the order of names, and depth first; TRES have no quotes."""
    since = tuple(map(int, release.split(".")))
    limits = "GrpTRESMins=cpu=1000:GrpTRES=cpu=512,mem=10G,gres/gpu:a100=4,gres/gpu:v100=8:GrpJobs=9:GrpJobsAccrue=5"
    thresh = ":MinPrioThresh=7" if since >= (25, 5) else ""
    comment = ":Comment='on leave'" if since >= (23, 2) else ""
    return f"""\
{_HEAD}{_QOS if since >= (25, 5) else ""}Cluster - 'fram':Fairshare=1:QOS='normal,long'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'bio':Description='biology':Organization='science':Fairshare=40:MaxTRESPerJob=gres/gpu:a100=2
Account - 'hep':Description='high energy; the "old" one':Organization='science':DefaultQOS='long':Fairshare=60:{limits}\
:GrpWall=60:MaxTRESMinsPerJob=cpu=5,gres/gpu:a100=1:MaxJobs=50:MaxWallDurationPerJob=720{thresh}:Priority=4:QOS='+long,-normal'
Parent - 'bio'
User - 'carol':DefaultAccount='bio':WCKeys='a,b':Fairshare=2147483647
Parent - 'hep'
User - 'ann':DefaultAccount='hep':Coordinator='hep,bio'{comment}:Fairshare=2
User - 'ann':Partition='gpu':DefaultAccount='hep':Coordinator='hep,bio'{comment}:Fairshare=9
Account - 'atlas':Description='atlas':Organization='hep':Fairshare=2147483647:MaxSubmitJobs=5
Parent - 'atlas'
User - 'ann':DefaultAccount='hep':Coordinator='hep,bio'{comment}:Fairshare=3
User - 'ben':DefaultAccount='atlas':Fairshare=0
"""
