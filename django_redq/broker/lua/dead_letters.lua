-- Reads dead letters whole, with the tasks that they are about; read-only.
-- KEYS   payload entry dlq
-- ARGV   max_bytes (id dead_id)...
-- REPLY  {how many letters were looked at, {entry ID, fields, 1 | 0 the task is dead by this letter, record}...}
-- `dead_id` '' means whichever letter this task has; `id` '' means whatever letter stands at `dead_id`.
-- A letter that is not there has no row. Where max_bytes were reached the rest is left for another call.
local payload, entry, dlq = KEYS[1], KEYS[2], KEYS[3]
local max_bytes = tonumber(ARGV[1])
--@include fields_of dead_by

local function read(id, dead_id)
  if dead_id == '' then
    dead_id = dead_by(entry, id)
  end
  local row = dead_id and redis.call('XRANGE', dlq, dead_id, dead_id)[1]
  local letter = row and fields_of(row)
  if not row or (id ~= '' and letter.id ~= id) then
    return nil
  end
  local current = letter.id ~= nil and dead_by(entry, letter.id) == row[1]
  local record = current and redis.call('HGET', payload, letter.id)
  for _, part in ipairs(row[2]) do
    max_bytes = max_bytes - #part
  end
  max_bytes = max_bytes - #(record or '')
  return {row[1], row[2], current and 1 or 0, record}
end

local rows, looked_at = {}, 0
for i = 2, #ARGV, 2 do
  if looked_at > 0 and max_bytes <= 0 then
    break
  end
  rows[#rows + 1] = read(ARGV[i], ARGV[i + 1])
  looked_at = looked_at + 1
end
return {looked_at, rows}
