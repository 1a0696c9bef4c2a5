-- last_delivered(stream, group) -> the entry ID up to which the group has handed the stream out.
local function last_delivered(stream, group)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  for _, flat in ipairs(groups.err and {} or groups) do
    local found = {}
    for i = 1, #flat, 2 do
      found[flat[i]] = flat[i + 1]
    end
    if found.name == group then
      return found['last-delivered-id']
    end
  end
  return '0-0'
end
