-- Lets one process a queue at a time empty itself for a parked suspect.
-- KEYS   meta
-- ARGV   now consumer ttl_ms
-- REPLY  1 it is this consumer's turn (ttl_ms 0 gives it back), 0 another one has it
local meta = KEYS[1]
local now, consumer, ttl_ms = ARGV[1], ARGV[2], ARGV[3]
--@include clock digits

now = clock(now)
local holder, till = string.match(redis.call('HGET', meta, 'turn') or '', '^(%S+) (%d+)$')
if holder and holder ~= consumer and tonumber(till) > now then
  return 0
elseif ttl_ms == '0' then
  redis.call('HDEL', meta, 'turn')
else
  redis.call('HSET', meta, 'turn', consumer .. ' ' .. digits(now + tonumber(ttl_ms)))
end
return 1
