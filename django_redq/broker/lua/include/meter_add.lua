-- meter_add(meter, now, counts): adds to what happened lately; never fails a script, so it comes after its writes.
-- `counts` is {succeeded, failed, died, started, longest wait, waits added up}, the waits in ms. A meter is one
-- string of two rings, 60 slots of a minute, then 96 of a quarter of an hour, 32 bytes each: the number of the
-- minute or quarter since the epoch (u32), the first five counts (u32), the sum (i64). A slot that bears another
-- number begins anew.
local function meter_add(meter, now, counts)
  local slots, read = {}, {'BITFIELD', meter}
  for _, ring in ipairs({{0, 60, 60000}, {60, 96, 900000}}) do
    local number = math.floor(now / ring[3])
    local at = (ring[1] + number % ring[2]) * 256
    slots[#slots + 1] = {number, at}
    for _, offset in ipairs({0, 160}) do
      read[#read + 1], read[#read + 2], read[#read + 3] = 'GET', 'u32', at + offset
    end
  end
  local seen = redis.pcall(unpack(read))
  if seen.err then
    return
  end
  local write = {'BITFIELD', meter, 'OVERFLOW', 'SAT'}
  local function put(verb, kind, at, value)
    write[#write + 1], write[#write + 2], write[#write + 3], write[#write + 4] = verb, kind, at, digits(value)
  end
  for i, slot in ipairs(slots) do
    local number, at, fresh = slot[1], slot[2], seen[2 * i - 1] ~= slot[1]
    if fresh then
      put('SET', 'u32', at, number)
    end
    for k, value in ipairs(counts) do
      if k == 5 then
        put('SET', 'u32', at + 160, math.min(fresh and value or math.max(value, seen[2 * i]), 4294967295))
      elseif fresh or value > 0 then
        put(fresh and 'SET' or 'INCRBY', k == 6 and 'i64' or 'u32', at + 32 * k, value)
      end
    end
  end
  redis.pcall(unpack(write))
end
