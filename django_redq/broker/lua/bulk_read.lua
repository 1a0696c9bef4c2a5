-- Reads what bulk work there is on a shard; read-only.
-- KEYS   bulk
-- ARGV   open_only
-- REPLY  {field, text...}: records (in shard 0) and the shard's parts; with open_only the records that are not over
local bulk = KEYS[1]
local open_only = ARGV[1] == '1'

local all = redis.call('HGETALL', bulk)
if not open_only then
  return all
end
local found = {}
for i = 1, #all, 2 do
  if string.match(all[i + 1], '^open ') then
    found[#found + 1] = all[i]
    found[#found + 1] = all[i + 1]
  end
end
return found
