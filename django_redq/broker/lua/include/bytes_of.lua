-- bytes_of(row) -> the size of a stream's row.
local function bytes_of(row)
  local bytes = 0
  for _, text in ipairs(row[2]) do
    bytes = bytes + #text
  end
  return bytes
end
