-- What happened lately in a shard; read-only.
-- KEYS   meter
-- ARGV   now first_byte last_byte
-- REPLY  {now, bytes of the ring as meter_add.lua writes them, fewer where nothing has happened yet}
local meter = KEYS[1]
local now, first_byte, last_byte = ARGV[1], ARGV[2], ARGV[3]
--@include clock digits

local bytes = redis.pcall('GETRANGE', meter, first_byte, last_byte)
return {digits(clock(now)), type(bytes) == 'string' and bytes or ''}
