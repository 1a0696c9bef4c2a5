-- Takes one delivery over from an owner that vanished, if it is still as it was seen.
-- KEYS   stream state meta
-- ARGV   group consumer owner entry_id count min_idle id new_state give_count park
-- REPLY  1 taken (or taken by this very call before), 0 it is not as it was seen
-- `give_count` is the delivery count from now on; `park` is '1' where it goes to the suspects' consumer.
local stream, state, meta = KEYS[1], KEYS[2], KEYS[3]
local group, consumer, owner, entry_id, count, min_idle = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local id, new_state, give_count, park = ARGV[7], ARGV[8], ARGV[9], ARGV[10]
--@include pending_row

local row = pending_row(stream, group, entry_id)
if not row or redis.call('HEXISTS', meta, 'paused') == 1 then
  return 0
elseif row[2] == consumer and row[4] == tonumber(give_count) then
  return 1
elseif row[2] ~= owner or row[4] ~= tonumber(count) or row[3] < tonumber(min_idle) then
  return 0
elseif not redis.call('XRANGE', stream, entry_id, entry_id)[1] then
  return 0
end
redis.call('HSET', state, id, new_state)
redis.call('XCLAIM', stream, group, consumer, 0, entry_id, 'RETRYCOUNT', give_count, 'JUSTID')
if park == '1' then
  redis.call('HINCRBY', meta, 'suspects', 1)
end
return 1
