-- The signs of life of a queue's consumers; read-only.
-- KEYS   consumers
-- ARGV   now
-- REPLY  {now, {name, '<ms of the last sign> <about>'...}}
local consumers = KEYS[1]
local now = ARGV[1]
--@include clock digits

local all = redis.pcall('HGETALL', consumers)
return {digits(clock(now)), all.err and {} or all}
