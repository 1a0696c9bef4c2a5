-- Takes dead letters back into the queue, their attempts and errors reset.
-- KEYS   delay payload state entry stream dlq
-- ARGV   now wake_channel due_channel shard when (id dead_id)...
-- REPLY  one text a letter: the ms at which it is due; 'gone' (no such letter); 'missing' (no payload)
-- `dead_id` is the letter that is meant, or '' for whichever this task has.
local delay, payload, state, entry, stream, dlq = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local now, wake_channel, due_channel, shard, when = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
--@include clock digits due_at dead_by put_ready tell tell_sooner

now = clock(now)
local due = due_at(when, now)
local replies, replayed = {}, false

local function replay(id, dead_id)
  local dead = dead_by(entry, id)
  if not dead or (dead_id ~= '' and dead ~= dead_id) then
    return 'gone'
  elseif redis.call('HEXISTS', payload, id) == 0 then
    return 'missing'
  end
  redis.call('HSET', state, id, '0 0 0 ' .. dead .. ' ')
  if due > now then
    redis.call('ZADD', delay, digits(due), id)
    redis.call('HDEL', entry, id)
  else
    put_ready(stream, entry, id)
  end
  redis.call('XDEL', dlq, dead)
  replayed = true
  return digits(due)
end

for i = 6, #ARGV, 2 do
  replies[#replies + 1] = replay(ARGV[i], ARGV[i + 1])
end
if replayed and due > now then
  tell_sooner(delay, due_channel, shard, due)
elseif replayed then
  tell(wake_channel, shard)
end
return replies
