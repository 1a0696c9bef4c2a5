-- Gives tasks whose place was taken from Redis a place again, a few a call.
-- KEYS   delay payload state entry stream dlq meta groups
-- ARGV   now grace_ms cursor count wake_channel shard
-- REPLY  {next cursor, '0' when through; how many were put back}
-- A cursor is '0' or '<of HSCAN> <imbalance at the start> <1 | 0 something was put back or may have to be>'.
-- Nothing is scanned while the sizes agree: every payload is in `delay` or in `entry`, and every entry in
-- `stream` or, but for tombstones, in `dlq`. A task whose stream entry vanished may be running: its holder
-- gets `grace_ms` to say so (renew.lua) before it is put back. A payload whose field is no task ID, which no
-- consumer can run, comes to rest as a dead letter. Sizes that disagree by what somebody else wrote or took away
-- stay so: they are noted as `odd` once all was looked at in vain, and while they are the same nothing is scanned
-- for ten minutes.
local delay, payload, state, entry, stream, dlq, meta, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local now, grace_ms, cursor, count, wake_channel, shard = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
--@include clock digits is_text place_of dead_by group_add put_ready tell

-- '0 0' where the sizes agree.
local function imbalance()
  local places = redis.call('HLEN', entry)
  local tombstones = tonumber(redis.call('HGET', meta, 'tombstones') or '') or 0
  return digits(redis.call('HLEN', payload) - redis.call('ZCARD', delay) - places) .. ' '
    .. digits(places - redis.call('XLEN', stream) - redis.call('XLEN', dlq) + tombstones)
end

if redis.call('XLEN', dlq) == 0 then
  -- Whatever was counted of letters that somebody else took away.
  redis.call('DEL', groups)
end
now = clock(now)

local function is_odd_for_good(sizes)
  local odd, since = string.match(redis.call('HGET', meta, 'odd') or '', '^(%S+ %S+) (%d+)$')
  return odd == sizes and math.abs(now - tonumber(since)) < 600000
end

local at, at_start, found = string.match(cursor, '^(%d+) (%S+ %S+) ([01])$')
if not at then
  at, at_start, found = cursor, imbalance(), '0'
  if at_start == '0 0' then
    redis.call('HDEL', meta, 'odd')
    return {'0', 0}
  elseif is_odd_for_good(at_start) then
    return {'0', 0}
  end
end

local function put_back_dead(id, reason, error)
  local attempts = string.match(redis.call('HGET', state, id) or '', '^%d+') or '0'
  local grouped = group_add(groups, '', '', now)
  local dead = redis.call('XADD', dlq, '*', 'id', id, 'reason', reason, 'kind', '',
    'error', error, 'type', '', 'traceback', '',
    'attempts', attempts, 'at', digits(now), 'entry', '', 'consumer', '', 'key', '', 'grouped', grouped)
  redis.call('HSET', entry, id, 'dlq ' .. dead)
end

-- 1 where a task got a new place, 0 where it has one; nil where that is to be seen.
local function repair(id)
  if redis.call('ZSCORE', delay, id) then
    return 0
  end
  local dead = dead_by(entry, id)
  if dead then
    if redis.call('XRANGE', dlq, dead, dead)[1] then
      return 0
    end
    put_back_dead(id, 'exhausted', 'its dead letter had vanished from Redis and was put back')
    return 1
  end
  local place = redis.call('HGET', entry, id) or ''
  local entry_id, held_until = place_of(place), tonumber(string.match(place, ' (%d+)$'))
  if entry_id and redis.call('XRANGE', stream, entry_id, entry_id)[1] then
    return 0
  elseif entry_id and not held_until then
    redis.call('HSET', entry, id, entry_id .. ' ' .. digits(now + tonumber(grace_ms)))
    return nil
  elseif entry_id and held_until > now then
    return nil
  end
  if id ~= '' and is_text(id) then
    put_ready(stream, entry, id)
  else
    put_back_dead(id, 'invalid_payload', 'the field of this payload is no task ID')
  end
  return 1
end

local page = redis.call('HSCAN', payload, at, 'COUNT', count)
local put_back = 0
for i = 1, #page[2], 2 do
  local became = repair(page[2][i])
  put_back = put_back + (became or 0)
  found = became == 0 and found or '1'
end
if put_back > 0 then
  tell(wake_channel, shard)
end
if page[1] ~= '0' then
  return {page[1] .. ' ' .. at_start .. ' ' .. found, put_back}
elseif found == '0' and imbalance() == at_start then
  redis.pcall('HSET', meta, 'odd', at_start .. ' ' .. digits(now))
end
return {'0', put_back}
