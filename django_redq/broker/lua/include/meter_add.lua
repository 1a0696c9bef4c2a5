-- meter_add(meter, now, counts): adds to what happened lately; never fails a script, so it comes after its writes.
-- `counts` is {succeeded, failed, died, started, longest wait, waits added up}, the waits in ms. A meter is one
-- string of two rings, 60 slots of a minute, then 96 of a quarter of an hour, 32 bytes each: the number of the
-- minute or quarter since the epoch (u32), the first five counts (u32), the sum (i64). A slot that bears another
-- number begins anew. BITFIELD says the same in a script and takes four times as long.
local function meter_add(meter, now, counts)
  local most, layout = 4294967295, '>I4I4I4I4I4I4i8'
  for _, ring in ipairs({{0, 60, 60000}, {60, 96, 900000}}) do
    local number = math.floor(now / ring[3])
    local at = (ring[1] + number % ring[2]) * 32
    local slot = redis.pcall('GETRANGE', meter, at, at + 31)
    if type(slot) ~= 'string' then
      return
    end
    local seen, succeeded, failed, died, started, longest, waited
    if #slot == 32 then
      seen, succeeded, failed, died, started, longest, waited = struct.unpack(layout, slot)
    end
    if seen ~= number then
      succeeded, failed, died, started, longest, waited = 0, 0, 0, 0, 0, 0
    end
    -- Beyond 2^53 a sum is no exact number in Lua; that is 285,000 years of waiting, so only garbage gets there.
    redis.pcall('SETRANGE', meter, at, struct.pack(layout, number,
      math.min(succeeded + counts[1], most), math.min(failed + counts[2], most), math.min(died + counts[3], most),
      math.min(started + counts[4], most), math.min(math.max(longest, counts[5]), most),
      math.min(waited + counts[6], 2 ^ 53)))
  end
end
