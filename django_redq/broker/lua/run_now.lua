-- Makes a SCHEDULED task READY, whenever it is due.
-- KEYS   delay entry stream
-- ARGV   id wake_channel shard
-- REPLY  1 it is ready, 0 it is not scheduled
local delay, entry, stream = KEYS[1], KEYS[2], KEYS[3]
local id, wake_channel, shard = ARGV[1], ARGV[2], ARGV[3]
--@include put_ready tell

if not redis.call('ZSCORE', delay, id) then
  return 0
end
put_ready(stream, entry, id)
redis.call('ZREM', delay, id)
tell(wake_channel, shard)
return 1
