-- Forgets bulk work that has long been over.
-- KEYS   bulk
-- ARGV   field...
-- REPLY  how many of these there were
local bulk = KEYS[1]

local dropped = 0
for _, field in ipairs(ARGV) do
  dropped = dropped + redis.call('HDEL', bulk, field)
end
return dropped
