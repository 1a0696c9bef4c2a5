-- is_text(bytes) -> whether they are UTF-8, as a client reads it.
local function is_text(bytes)
  local i = string.find(bytes, '[\128-\255]')
  while i do
    local a, b = string.byte(bytes, i, i + 1)
    local more = a >= 194 and a <= 223 and 1 or a >= 224 and a <= 239 and 2 or a >= 240 and a <= 244 and 3
    if not more or not string.find(bytes, '^' .. string.rep('[\128-\191]', more), i + 1) then
      return false
    elseif (a == 224 and b < 160) or (a == 237 and b > 159) or (a == 240 and b < 144) or (a == 244 and b > 143) then
      -- Longer than need be, half of a UTF-16 pair, beyond the last character.
      return false
    end
    i = string.find(bytes, '[\128-\255]', i + 1 + more)
  end
  return true
end
