"""OpenPBS hook (event queuejob): the job's factor as the resource `fairshare`, for job_sort_formula.

qmgr -c "create resource fairshare type=float,flag=ir"
qmgr -c "create hook fairshare event=queuejob"
qmgr -c "import hook fairshare application/x-python default pbs_hook.py"
qmgr -c "set server job_sort_formula = 'fairshare * 1000 + eligible_time / 3600'"
"""

import subprocess

import pbs

CALLOUT = ["/usr/local/bin/fairshare-callout", "--quiet", "--wait-s", "0.5"]

event = pbs.event()
user, project = str(event.requestor), str(event.job.project or "")
if project == "_pbs_project_default":
    project = ""
if user and not user.startswith("-"):
    done = subprocess.run([*CALLOUT, "--group=" + project, "--", user], stdout=subprocess.PIPE)
    if done.stdout.strip():
        event.job.Resource_List["fairshare"] = float(done.stdout)
event.accept()
