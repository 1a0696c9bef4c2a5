-- Reads dead letters, with the tasks that they are about; read-only.
-- KEYS   payload state entry dlq
-- ARGV   max_bytes cut (id dead_id)...
-- REPLY  {how many letters were looked at, {entry ID, fields, 1 | 0 the task is dead by this letter,
--         1 | 0 it has a payload, record, state}...}
-- `dead_id` '' means whichever letter this task has; `id` '' means whatever letter stands at `dead_id`.
-- A letter that is not there has no row. Where max_bytes were reached the rest is left for another call.
-- `cut` is '' for whole letters, else the bytes that are wanted of each field; traceback, record and state
-- are left out then.
local payload, state, entry, dlq = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local max_bytes, cut = tonumber(ARGV[1]), tonumber(ARGV[2])
--@include fields_of dead_by

-- Twenty fields at most: who else wrote there may have written many.
local function cut_short(flat)
  local short = {}
  for i = 1, math.min(#flat, 40), 2 do
    if flat[i] ~= 'traceback' then
      short[#short + 1] = string.sub(flat[i], 1, cut)
      short[#short + 1] = string.sub(flat[i + 1], 1, cut)
    end
  end
  return short
end

local function pay_for(parts)
  for _, part in ipairs(parts) do
    max_bytes = max_bytes - #part
  end
end

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
  pay_for(row[2])
  if cut then
    local has_payload = current and redis.call('HEXISTS', payload, letter.id) or 0
    return {row[1], cut_short(row[2]), current and 1 or 0, has_payload, false, false}
  end
  local record = current and redis.call('HGET', payload, letter.id)
  local past = current and redis.call('HGET', state, letter.id)
  pay_for({record or '', past or ''})
  return {row[1], row[2], current and 1 or 0, record and 1 or 0, record, past}
end

local rows, looked_at = {}, 0
for i = 3, #ARGV, 2 do
  if looked_at > 0 and max_bytes <= 0 then
    break
  end
  rows[#rows + 1] = read(ARGV[i], ARGV[i + 1])
  looked_at = looked_at + 1
end
return {looked_at, rows}
