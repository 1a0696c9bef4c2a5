-- Pages through a shard's READY tasks in order of their entries, parked suspects first; read-only.
-- KEYS   payload state stream
-- ARGV   group suspects_consumer after count
-- REPLY  {task ID or '', entry ID, head of the record, attempts}...
-- `after` is the entry ID to start behind; '0-0' is the beginning.
local payload, state, stream = KEYS[1], KEYS[2], KEYS[3]
local group, suspects_consumer, after, count = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
--@include cut_id head_of last_delivered

local rows = {}

local function take(row)
  local id = row and row[2][1] == 'id' and cut_id(row[2][2]) or ''
  local record, attempts = head_of(redis.call('HGET', payload, id), redis.call('HGET', state, id))
  rows[#rows + 1] = row and {id, row[1], record, attempts}
end

local parked = redis.pcall('XPENDING', stream, group, '(' .. after, '+', count, suspects_consumer)
for _, pending in ipairs(parked.err and {} or parked) do
  take(redis.call('XRANGE', stream, pending[1], pending[1])[1])
end

local function is_behind(one, other)
  local ms, sequence = string.match(one, '^(%d+)%-(%d+)$')
  local other_ms, other_sequence = string.match(other, '^(%d+)%-(%d+)$')
  ms, other_ms = tonumber(ms), tonumber(other_ms)
  return ms > other_ms or (ms == other_ms and tonumber(sequence) > tonumber(other_sequence))
end

local delivered = last_delivered(stream, group)
local start = is_behind(after, delivered) and after or delivered
if #rows < count then
  for _, row in ipairs(redis.call('XRANGE', stream, '(' .. start, '+', 'COUNT', count - #rows)) do
    take(row)
  end
end
return rows
