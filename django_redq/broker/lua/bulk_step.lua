-- Carries on a shard's part of a bulk: replays or discards the letters that it is about, oldest first, some a call.
-- KEYS   lease delay payload state entry stream dlq meta groups bulk
-- ARGV   now instance wake_channel due_channel shard part_id from till action start spread phase max_effort max_bytes (name value)...
-- REPLY  the state of the part: 'going', 'done', 'stopped'; or '' where the lease is not this instance's
-- What was done, and how far it got, is written in one go: no call that is lost or comes twice makes a difference.
-- Letters are meant from the entry ID `from` on that died up to the ms `till`, and before the first call: not those
-- that fall back meanwhile.
-- Of the tasks replayed the n-th is due at `start` (0: now) + `spread` * the fraction of (n * the golden ratio +
-- `phase`). That fills the time evenly however many there will be (Knuth, The Art of Computer Programming, vol. 3,
-- 6.4, theorem S).
local lease, delay, payload, state, entry, stream, dlq, meta, groups, bulk = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local now, instance, wake_channel, due_channel, shard, part_id, from, till, action = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local start, spread, phase, max_effort, max_bytes = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14])
--@include clock digits fields_of bytes_of next_chunk died_at asked_for dead_by letter_at put_ready group_remove replay_letter discard_letter part_of part_text tell tell_sooner

local GOLDEN_RATIO = 0.6180339887498949
-- What it costs to look at a letter is 1, to replay or discard it so much more.
local ACTION_EFFORT = 3

if redis.call('GET', lease) ~= instance then
  return ''
end
now = clock(now)
local part = part_of(redis.call('HGET', bulk, part_id), now)
if part.state ~= 'going' then
  return part.state
end
if part.till == '-' then
  local last = redis.call('XREVRANGE', dlq, till, '-', 'COUNT', 1)[1]
  part.till = last and last[1] or '0-0'
end
if action == 'discard' then
  -- A script that has written is not refused for want of memory, and this one makes room.
  redis.call('HDEL', bulk, '')
end

local is_ready, soonest = false, math.huge

local function replay(entry_id, letter)
  local due = start == 0 and now or start
  if spread > 0 then
    due = math.floor(due + spread * ((part.changed * GOLDEN_RATIO + phase) % 1))
  end
  local became = letter.id and replay_letter(letter.id, entry_id, due, now, letter) or 'gone'
  if became ~= 'replayed' then
    -- No task is dead by a tombstone, but it is known why.
    return letter.reason == 'missing_payload' and 'missing' or became
  elseif due > now then
    soonest = math.min(soonest, due)
  else
    is_ready = true
  end
  return 'changed'
end

local function discard(entry_id, letter)
  return discard_letter(letter.id or '', entry_id, letter) == 1 and 'changed' or 'gone'
end

-- Deals with one letter; what that costs.
local function take(entry_id, letter)
  part.cursor = entry_id
  part.looked_at = part.looked_at + 1
  if not asked_for(entry_id, letter, ARGV, 15) then
    return 1
  end
  local became = action == 'replay' and replay(entry_id, letter) or discard(entry_id, letter)
  part[became] = part[became] + 1
  return 1 + ACTION_EFFORT
end

local effort, bytes, chunk = 0, 0, 1

local function is_tired()
  return effort >= max_effort or bytes >= max_bytes
end

-- false after the last letter.
local function take_some()
  local next_one = part.cursor == '-' and from or '(' .. part.cursor
  local rows = redis.call('XRANGE', dlq, next_one, part.till, 'COUNT', chunk)
  local asked, before = chunk, bytes
  for _, row in ipairs(rows) do
    bytes = bytes + bytes_of(row)
    effort = effort + take(row[1], fields_of(row))
    if is_tired() then
      return true
    end
  end
  chunk = next_chunk(chunk, bytes - before)
  return #rows == asked
end

while part.state == 'going' and not is_tired() do
  if not take_some() then
    part.state, part.ended = 'done', now
  end
end
redis.call('HSET', bulk, part_id, part_text(part))
if soonest < math.huge then
  tell_sooner(delay, due_channel, shard, soonest)
end
if is_ready then
  tell(wake_channel, shard)
end
return part.state
