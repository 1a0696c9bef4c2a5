-- Notes a consumer's sign of life, and forgets some that gave none for long.
-- KEYS   consumers
-- ARGV   now name about forget_ms
-- REPLY  consumers noted
-- A value is '<ms of the last sign> <about>'. Three at random are looked at a call, so that those long gone
-- go without a search; beyond 1,000 names nobody new is noted.
local consumers = KEYS[1]
local now, name, about, forget_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
--@include clock digits

now = clock(now)
local some = redis.call('HRANDFIELD', consumers, 3, 'WITHVALUES')
for i = 1, #some, 2 do
  local seen = tonumber(string.match(some[i + 1], '^%d+') or '') or 0
  if seen < now - tonumber(forget_ms) then
    redis.call('HDEL', consumers, some[i])
  end
end
if redis.call('HLEN', consumers) < 1000 or redis.call('HEXISTS', consumers, name) == 1 then
  redis.call('HSET', consumers, name, digits(now) .. ' ' .. about)
end
return redis.call('HLEN', consumers)
