-- Has a shard do nothing more of a bulk, whether it has begun with it or not.
-- KEYS   bulk
-- ARGV   now part_id
-- REPLY  1 halted, 0 its part was over before
local bulk = KEYS[1]
local now, part_id = ARGV[1], ARGV[2]
--@include clock digits part_of part_text

now = clock(now)
local part = part_of(redis.call('HGET', bulk, part_id), now)
if part.state ~= 'going' then
  return 0
end
part.state, part.ended = 'stopped', now
-- A script that has written is not refused for want of memory: to stop must always be possible.
redis.call('HDEL', bulk, '')
redis.call('HSET', bulk, part_id, part_text(part))
return 1
