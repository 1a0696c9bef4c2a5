-- When the first task of each shard is due; read-only.
-- KEYS   delay...
-- ARGV
-- REPLY  one text a shard: ms since the epoch, or '' where nothing is scheduled
local replies = {}
for i, delay in ipairs(KEYS) do
  replies[i] = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2] or ''
end
return replies
