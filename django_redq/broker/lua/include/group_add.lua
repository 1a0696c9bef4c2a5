-- group_add(groups, kind, exception_type, at) -> '1' a dead letter is counted under its group, '0' among the
-- others, '' not at all. A letter bears this as `grouped`, so that group_remove.lua takes away what was added.
-- A group is '<kind> <exception type>' -> '<count> <first ms> <last ms>'; a shard has 100 of them, then '*'.
local function group_add(groups, kind, exception_type, at)
  local name, grouped = kind .. ' ' .. exception_type, '1'
  local size = redis.pcall('HLEN', groups)
  if type(size) == 'table' then
    return ''
  elseif size >= 100 and redis.call('HEXISTS', groups, name) == 0 then
    name, grouped = '*', '0'
  end
  local count, first = string.match(redis.call('HGET', groups, name) or '', '^(%d+) (%d+) %d+$')
  count = digits((tonumber(count) or 0) + 1)
  redis.call('HSET', groups, name, count .. ' ' .. (first or digits(at)) .. ' ' .. digits(at))
  return grouped
end
