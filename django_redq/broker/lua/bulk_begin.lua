-- Writes down bulk work on dead letters, which the queue's schedulers are to carry on; in shard 0 only.
-- KEYS   bulk
-- ARGV   now bulk_id max_open definition
-- REPLY  1 begun, 0 it was begun before, -1 too many are open
-- The record is '<state> <last ms of the letters meant> <begun ms> <ended ms> <definition>'. Entry IDs are made by
-- Redis' own clock, so what was there before is told by that clock, whatever time the caller brings.
local bulk = KEYS[1]
local now, bulk_id, max_open, definition = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
--@include clock digits

if redis.call('HEXISTS', bulk, bulk_id) == 1 then
  return 0
end
local open = 0
for _, record in ipairs(redis.call('HVALS', bulk)) do
  if string.match(record, '^open ') then
    open = open + 1
  end
end
if open >= tonumber(max_open) then
  return -1
end
redis.call('HSET', bulk, bulk_id, 'open ' .. digits(clock('')) .. ' ' .. digits(clock(now)) .. ' 0 ' .. definition)
return 1
