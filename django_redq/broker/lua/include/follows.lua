-- follows(one, other) -> whether a member comes behind another of the same score, as Redis orders them: byte by
-- byte. Lua's own `<` goes by the server's locale.
local function follows(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then
      return a > b
    end
  end
  return #one > #other
end
