-- A job's first site factor, from the file that fairshare-agent writes after each pass (run --first-values FILE).
-- Without it a new job has the site factor 0 until the next pass. Put it beside slurm.conf; JobSubmitPlugins=lua.
local FILE = "/run/fairshare-agent/first-values"
local LONGEST_S = 900 -- an older file is left alone, where it doesn't say until when it may be used
local FALLBACK = nil -- a number for accounts that the file doesn't have; nil: leave 0

local function default_partition(part_list)
    for name, part in pairs(part_list) do
        if part.flag_default == 1 then
            return name
        end
    end
    return ""
end

local function first_value(user, account, partition)
    local file = io.open(FILE, "r")
    if file == nil then
        return nil
    end
    local found = FALLBACK
    local written_at = tonumber(string.match(file:read("*l") or "", "^# (%d+)$"))
    local first = file:read("*l") or ""
    local usable_until = tonumber(string.match(first, "^# until (%d+)$")) or ((written_at or 0) + LONGEST_S)
    if written_at == nil or os.time() > usable_until then
        file:close()
        return nil
    end
    file:seek("set")
    local wanted = user .. "|" .. account .. "|"
    for line in file:lines() do
        if string.sub(line, 1, #wanted) == wanted then
            local rest = string.sub(line, #wanted + 1)
            local of_partition, value = string.match(rest, "^(.*)|(%-?%d+)$")
            if of_partition == partition then -- one that has an association of its own
                found = tonumber(value)
                break
            elseif of_partition == nil then
                found = tonumber(rest)
            end
        end
    end
    file:close()
    return found
end

function slurm_job_submit(job_desc, part_list, submit_uid)
    local account = job_desc.account or job_desc.default_account
    if job_desc.user_name ~= nil and account ~= nil then
        local named = job_desc.partition or default_partition(part_list)
        local value = first_value(job_desc.user_name, account, string.match(named, "^[^,]*"))
        if value ~= nil then
            job_desc.site_factor = value
        end
    end
    return slurm.SUCCESS -- a job is never refused for want of a factor
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
    return slurm.SUCCESS
end

return slurm.SUCCESS
