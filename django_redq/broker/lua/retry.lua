-- Settles failed attempts that get another: back to SCHEDULED, or READY where no delay is asked for.
-- KEYS   stream delay state entry meta meter
-- ARGV   group consumer now wake_channel due_channel shard (id entry_id count delay_ms new_state)...
-- REPLY  one integer a task: 1 settled, 0 stale, 2 it was settled before
local stream, delay, state, entry, meta, meter = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local group, consumer, now, wake_channel, due_channel, shard = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
--@include clock digits pending_row place_of holds came_from put_ready tell tell_sooner meter_add

now = clock(now)
local replies, retried, ready, soonest = {}, 0, false, math.huge
for i = 7, #ARGV, 5 do
  local id, entry_id, count, delay_ms, new_state = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), ARGV[i + 4]
  local verdict = holds(stream, entry, group, consumer, id, entry_id, count)
  if verdict == 'mine' then
    redis.call('HSET', state, id, new_state)
    if delay_ms > 0 then
      redis.call('ZADD', delay, digits(now + delay_ms), id)
      redis.call('HDEL', entry, id)
      soonest = math.min(soonest, now + delay_ms)
    else
      put_ready(stream, entry, id)
      ready = true
    end
    redis.pcall('XACK', stream, group, entry_id)
    redis.call('XDEL', stream, entry_id)
    retried = retried + 1
    replies[#replies + 1] = 1
  elseif verdict == 'settled' or came_from(state, id) == entry_id then
    replies[#replies + 1] = 2
  else
    replies[#replies + 1] = 0
  end
end
if retried > 0 then
  redis.call('HINCRBY', meta, 'retried', retried)
  meter_add(meter, now, {0, retried, 0, 0, 0, 0})
end
if soonest < math.huge then
  tell_sooner(delay, due_channel, shard, soonest)
end
if ready then
  tell(wake_channel, shard)
end
return replies
