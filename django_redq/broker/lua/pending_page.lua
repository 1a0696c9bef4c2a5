-- Pages through pending entries in order of their IDs; changes none of them.
-- KEYS   stream payload state entry meta
-- ARGV   group owner not_owner min_idle start scan limit max_bytes
-- REPLY  {where the next page starts or '' after the last, {row...}}, a row being
--        {entry ID, owner, deliveries, 1 | 0 the stream still has the entry, task ID or '', 'here' | 'second', record, state}
-- `owner` '' means everybody but `not_owner`, and nobody while the queue is paused. At most `scan` rows are
-- looked at and `limit` returned a call, so that a long list costs many short calls.
local stream, payload, state, entry, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local group, owner, not_owner, min_idle, start, scan, limit, max_bytes = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
--@include place_of

min_idle, scan, limit, max_bytes = tonumber(min_idle), tonumber(scan), tonumber(limit), tonumber(max_bytes)
if owner == '' and redis.call('HEXISTS', meta, 'paused') == 1 then
  return {'', {}}
end
local rows = owner == '' and redis.pcall('XPENDING', stream, group, start, '+', scan)
  or redis.pcall('XPENDING', stream, group, start, '+', scan, owner)
if rows.err then
  if string.find(rows.err, 'NOGROUP', 1, true) then
    return {'', {}}
  end
  return rows
end

local function describe(entry_id, holder, count)
  local found = redis.call('XRANGE', stream, entry_id, entry_id)[1]
  local fields = found and found[2] or {}
  local id = fields[1] == 'id' and fields[2] or ''
  if id == '' then
    return {entry_id, holder, count, found and 1 or 0, '', 'here', false, false}
  end
  local place = redis.call('HGET', entry, id)
  if place and place_of(place) ~= entry_id then
    return {entry_id, holder, count, 1, id, 'second', false, false}
  end
  local record = redis.call('HGET', payload, id)
  max_bytes = max_bytes - #(record or '')
  return {entry_id, holder, count, 1, id, 'here', record, redis.call('HGET', state, id)}
end

-- fetch.lua looks for parked tasks only where `meta` counts some: they must not be lost with that key.
local function count_parked()
  if (tonumber(redis.call('HGET', meta, 'suspects') or '') or 0) <= 0 then
    redis.pcall('HSET', meta, 'suspects', 1)
  end
end

local page, cursor = {}, ''
for _, row in ipairs(rows) do
  if #page >= limit or max_bytes <= 0 then
    return {cursor, page}
  end
  if row[2] == not_owner then
    count_parked()
  elseif row[3] >= min_idle then
    page[#page + 1] = describe(row[1], row[2], row[4])
  end
  cursor = '(' .. row[1]
end
return {#rows < scan and '' or cursor, page}
