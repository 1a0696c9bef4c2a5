-- Takes a task that is SCHEDULED or READY (parked suspects included) out of the queue.
-- KEYS   delay payload state entry stream
-- ARGV   group suspects_consumer id
-- REPLY  1 canceled, 0 it is running, dead or not there
local delay, payload, state, entry, stream = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local group, suspects_consumer, id = ARGV[1], ARGV[2], ARGV[3]
--@include pending_row place_of

if redis.call('ZREM', delay, id) == 0 then
  local entry_id = place_of(redis.call('HGET', entry, id) or '')
  if not entry_id then
    return 0
  end
  local row = pending_row(stream, group, entry_id)
  if row and row[2] ~= suspects_consumer then
    return 0
  elseif row then
    redis.call('XACK', stream, group, entry_id)
  end
  if redis.call('XDEL', stream, entry_id) == 0 then
    return 0
  end
  redis.call('HDEL', entry, id)
end
redis.call('HDEL', state, id)
redis.call('HDEL', payload, id)
return 1
