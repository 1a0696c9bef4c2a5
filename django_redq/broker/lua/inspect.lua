-- Where one task is and what has happened to it; read-only.
-- KEYS   delay payload state entry stream dlq
-- ARGV   group id
-- REPLY  {record, state, due ms or '', place or '', consumer or '', deliveries, fields of the dead letter}
local delay, payload, state, entry, stream, dlq = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local group, id = ARGV[1], ARGV[2]
--@include pending_row place_of dead_by

local place = redis.call('HGET', entry, id) or ''
local due = redis.call('ZSCORE', delay, id) or ''
local dead, entry_id = dead_by(entry, id), place_of(place)
local letter = dead and redis.call('XRANGE', dlq, dead, dead)[1]
local row = entry_id and pending_row(stream, group, entry_id)
return {
  redis.call('HGET', payload, id), redis.call('HGET', state, id), due, place,
  row and row[2] or '', row and row[4] or 0, letter and letter[2] or {},
}
