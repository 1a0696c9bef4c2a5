-- When the first task of each shard is due; read-only.
-- KEYS   delay...
-- ARGV   now
-- REPLY  {now, then one text a shard: ms since the epoch, or '' where nothing is scheduled}
local now = ARGV[1]
--@include clock digits

local replies = {digits(clock(now))}
for i, delay in ipairs(KEYS) do
  replies[i + 1] = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2] or ''
end
return replies
