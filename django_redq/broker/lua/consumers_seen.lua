-- The signs of life of a queue's consumers; read-only.
-- KEYS   consumers
-- ARGV   now max_name max_told
-- REPLY  {now, {name, '<ms of the last sign> <about>'...}}
-- Longer names than ours are left out, longer values cut: somebody else wrote them.
local consumers = KEYS[1]
local now, max_name, max_told = ARGV[1], ARGV[2], ARGV[3]
--@include clock digits

local all, some = redis.pcall('HGETALL', consumers), {}
for i = 1, all.err and 0 or #all, 2 do
  if #all[i] <= tonumber(max_name) then
    some[#some + 1], some[#some + 2] = all[i], string.sub(all[i + 1], 1, tonumber(max_told))
  end
end
return {digits(clock(now)), some}
