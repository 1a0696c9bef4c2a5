-- Pauses or resumes one shard and tells its consumers.
-- KEYS   meta
-- ARGV   paused wake_channel shard
-- REPLY  1 it changed, 0 it was so already
local meta = KEYS[1]
local paused, wake_channel, shard = ARGV[1], ARGV[2], ARGV[3]
--@include tell

local changed
if paused == '1' then
  changed = redis.call('HSETNX', meta, 'paused', 1)
else
  changed = redis.call('HDEL', meta, 'paused')
end
tell(wake_channel, shard)
return changed
