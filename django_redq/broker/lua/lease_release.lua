-- Gives a shard's lease up, so that a standby takes over at once.
-- KEYS   lease
-- ARGV   instance due_channel shard
-- REPLY  1 released, 0 it was not ours
local lease = KEYS[1]
local instance, due_channel, shard = ARGV[1], ARGV[2], ARGV[3]
--@include tell

if redis.call('GET', lease) ~= instance then
  return 0
end
redis.call('DEL', lease)
tell(due_channel, shard)
return 1
