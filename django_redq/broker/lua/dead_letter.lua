-- Settles a task that gets no further attempt: to the dead letters, its payload kept for a replay.
-- KEYS   stream payload state entry dlq meta groups meter
-- ARGV   group consumer now min_idle id entry_id count new_state reason kind error exception_type traceback attempts key
-- REPLY  {1 settled | 0 stale | 2 it was settled before, the letter's entry ID or '' where it has none}
-- `min_idle` (ms) is 0 for one's own delivery; who buries a vanished owner's gives that owner as `consumer`.
-- Where the payload is missing the letter is a tombstone: it has no task ID to be found by, only its entry ID.
-- `key` is the task's idempotency key, for whoever looks for it among the letters.
local stream, payload, state, entry, dlq, meta, groups, meter = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local group, consumer, now, min_idle, id, entry_id, count, new_state = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local reason, kind, error, exception_type, traceback, attempts, key = ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14], ARGV[15]
--@include clock digits pending_row place_of holds dead_by group_add meter_add

-- The letter of this very delivery, where its burial was told of by a reply that got lost.
local function buried_before()
  local dead = dead_by(entry, id)
  local letter = dead and redis.call('XRANGE', dlq, dead, dead)[1]
  for i = 1, letter and #letter[2] or 0, 2 do
    if letter[2][i] == 'entry' then
      return letter[2][i + 1] == entry_id and dead or nil
    end
  end
end

local verdict, row = holds(stream, entry, group, consumer, id, entry_id, count)
if verdict == 'settled' then
  return {2, ''}
elseif verdict == 'stale' or (row and row[3] < tonumber(min_idle)) then
  local before = buried_before()
  return {before and 2 or 0, before or ''}
end

local has_payload = redis.call('HEXISTS', payload, id) == 1
now = clock(now)
local grouped = group_add(groups, kind, exception_type, now)
local dead = redis.call('XADD', dlq, '*', 'id', id, 'reason', has_payload and reason or 'missing_payload',
  'kind', kind, 'error', error, 'type', exception_type, 'traceback', traceback, 'attempts', attempts,
  'at', digits(now), 'entry', entry_id, 'consumer', consumer, 'key', key, 'grouped', grouped)
if has_payload then
  redis.call('HSET', entry, id, 'dlq ' .. dead)
  redis.call('HSET', state, id, new_state)
else
  redis.call('HDEL', entry, id)
  redis.call('HDEL', state, id)
  redis.call('HINCRBY', meta, 'tombstones', 1)
end
redis.pcall('XACK', stream, group, entry_id)
redis.call('XDEL', stream, entry_id)
redis.call('HINCRBY', meta, 'dead', 1)
meter_add(meter, now, {0, 1, 1, 0, 0, 0})
return {1, dead}
