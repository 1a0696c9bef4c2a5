-- Settles tasks that succeeded: entry, payload and state go.
-- KEYS   stream payload state entry meta done kept meter
-- ARGV   group consumer now retention cleanup done_max kept_max_age_ms (id entry_id count)...
-- REPLY  one integer a task: 1 settled, 0 stale, 2 it was settled before
local stream, payload, state, entry, meta, done, kept, meter = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local group, consumer, now, retention, cleanup, done_max, kept_max_age_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
--@include clock digits pending_row place_of holds meter_add

local replies, ids, entry_ids = {}, {}, {}
for i = 8, #ARGV, 3 do
  local id, entry_id, count = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local verdict = holds(stream, entry, group, consumer, id, entry_id, count)
  if verdict == 'mine' then
    ids[#ids + 1], entry_ids[#entry_ids + 1] = id, entry_id
  end
  replies[#replies + 1] = verdict == 'mine' and 1 or verdict == 'settled' and 2 or 0
end
if #ids == 0 then
  return replies
end

-- XACK comes first: it needs no memory, and once a script has written, what needs some may follow.
redis.pcall('XACK', stream, group, unpack(entry_ids))
redis.call('XDEL', stream, unpack(entry_ids))
redis.call('HDEL', entry, unpack(ids))
if retention == 'keep' then
  for i, id in ipairs(ids) do
    redis.pcall('XADD', done, 'MAXLEN', '~', done_max, '*', 'id', id, 'entry', entry_ids[i])
  end
end
if cleanup == 'never' then
  local oldest = digits(clock(now) - tonumber(kept_max_age_ms))
  for _, id in ipairs(ids) do
    local record = redis.call('HGET', payload, id)
    redis.pcall('XADD', kept, 'MINID', '~', oldest, '*', 'id', id, 'payload', record or '')
  end
end
redis.call('HDEL', state, unpack(ids))
redis.call('HDEL', payload, unpack(ids))
redis.pcall('HINCRBY', meta, 'done', #ids)
meter_add(meter, clock(now), {#ids, 0, 0, 0, 0, 0})
return replies
