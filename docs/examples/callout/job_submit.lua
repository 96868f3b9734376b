-- job_submit.lua: the first sitefactor of a job, at submission. The agent keeps it current afterwards.
-- slurm.conf: JobSubmitPlugins=lua, PriorityType=priority/multifactor, PriorityWeightFairshare=0.
-- slurmctld waits for this script: keep the wait short, and renew the cache by a timer (fairshare-callout --refresh).

local CALLOUT = "/usr/local/bin/fairshare-callout --quiet --wait-s 0.2 --weight 100000"

-- popen starts a shell: nothing reaches it but these characters, and no leading dash.
local function is_plain(name)
   return type(name) == "string" and name:match("^[%w_][%w_.-]*$") ~= nil
end

local function default_partition(part_list)
   for name, part in pairs(part_list or {}) do
      if part.flag_default == 1 then return name end
   end
end

function fairshare_value(user, account, partition)
   if not is_plain(user) then return nil end
   local command = CALLOUT
   if is_plain(account) then command = command .. " --group=" .. account end
   if is_plain(partition) then command = command .. " --partition=" .. partition end
   local pipe = io.popen(command .. " -- " .. user, "r")
   if pipe == nil then return nil end
   local value = tonumber(pipe:read("l"))
   pipe:close()
   return value
end

function slurm_job_submit(job_desc, part_list, submit_uid)
   local partition = job_desc.partition or default_partition(part_list)
   -- Slurm accepts several partitions only if the user has the same association in all of them.
   local first = partition and partition:match("^[^,]+")
   local value = fairshare_value(job_desc.user_name, job_desc.account or job_desc.default_account, first)
   if value ~= nil then job_desc.site_factor = value end
   return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
   return slurm.SUCCESS
end
