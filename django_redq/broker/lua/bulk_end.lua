-- Ends bulk work for good: it is through, or somebody stopped it; in shard 0 only.
-- KEYS   bulk
-- ARGV   now bulk_id state
-- REPLY  1 ended, 0 it was over before, -1 there is none
local bulk = KEYS[1]
local now, bulk_id, state = ARGV[1], ARGV[2], ARGV[3]
--@include clock digits

local record = redis.call('HGET', bulk, bulk_id)
if not record then
  return -1
end
local head, definition = string.match(record, '^open (%d+ %d+) %d+ (.*)$')
if not head then
  return 0
end
-- A script that has written is not refused for want of memory: to stop must always be possible.
redis.call('HDEL', bulk, '')
redis.call('HSET', bulk, bulk_id, state .. ' ' .. head .. ' ' .. digits(clock(now)) .. ' ' .. definition)
return 1
