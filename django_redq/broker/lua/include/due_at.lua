-- due_at(when, now) -> ms since the epoch. `when` is '' (now), '+N' (N ms from now) or 'N' (absolute).
local function due_at(when, now)
  if when == '' then
    return now
  elseif string.sub(when, 1, 1) == '+' then
    return now + tonumber(string.sub(when, 2))
  end
  return tonumber(when)
end
