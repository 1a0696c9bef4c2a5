-- fields_of(row) -> the fields of a stream's row as a table.
local function fields_of(row)
  local fields = {}
  for i = 1, #row[2], 2 do
    fields[row[2][i]] = row[2][i + 1]
  end
  return fields
end
