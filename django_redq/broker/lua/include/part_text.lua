-- part_text(part) -> '<state> <cursor> <till> <looked at> <changed> <gone> <missing> <begun ms> <ended ms or 0>'.
-- `cursor` is the entry ID last looked at, `till` the last one of the letters that are meant; '-' before the first step.
local function part_text(part)
  local numbers = {part.looked_at, part.changed, part.gone, part.missing, part.begun, part.ended}
  for i, number in ipairs(numbers) do
    numbers[i] = digits(number)
  end
  return table.concat({part.state, part.cursor, part.till, unpack(numbers)}, ' ')
end
