-- Pages through a shard's RUNNING tasks in order of their entries; read-only.
-- KEYS   payload state stream
-- ARGV   group suspects_consumer after count
-- REPLY  {task ID or '', entry ID, head of the record, attempts, consumer, ms since it was renewed, deliveries}...
-- `after` is the entry ID to start behind; '0-0' is the beginning. What is parked is READY, and a pending row
-- without an entry is nobody's task; for these more rows are read, a bounded number.
local payload, state, stream = KEYS[1], KEYS[2], KEYS[3]
local group, suspects_consumer, after, count = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
--@include cut_id head_of

local rows = {}

local function take(pending)
  local found = pending[2] ~= suspects_consumer and redis.call('XRANGE', stream, pending[1], pending[1])[1]
  if found then
    local id = found[2][1] == 'id' and cut_id(found[2][2]) or ''
    local record, attempts = head_of(redis.call('HGET', payload, id), redis.call('HGET', state, id))
    rows[#rows + 1] = {id, pending[1], record, attempts, pending[2], pending[3], pending[4]}
  end
end

for _ = 1, 20 do
  local page = redis.pcall('XPENDING', stream, group, '(' .. after, '+', math.max(count, 100))
  if page.err or #page == 0 then
    return rows
  end
  for _, pending in ipairs(page) do
    take(pending)
    if #rows >= count then
      return rows
    end
    after = pending[1]
  end
end
return rows
