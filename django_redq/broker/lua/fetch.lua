-- Delivers READY tasks of many shards to one consumer, payloads included; never waits.
-- KEYS   (stream payload state entry meta meter)...
-- ARGV   consumer suspects_consumer limit max_bytes alone (group)...
-- REPLY  items {position of the shard from 1, what, ...}:
--        'rows', {{entry ID, task ID or '', deliveries, 'task' | 'suspect' | 'second' | 'later', record, state}...}
--        'suspects', ms that the longest parked one has waited
--        'paused'
--        'error', text
-- `alone` says that the consumer's process holds no task: only then a suspect is delivered, by itself.
-- 'later': the record was left out, max_bytes were reached. 'second': the task lives in another entry.
local consumer, suspects_consumer, limit, max_bytes, alone = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
--@include clock place_of meter_add

local shards, items = #KEYS / 6, {}
limit, max_bytes, alone = tonumber(limit), tonumber(max_bytes), alone == '1'

local function keys_of(shard)
  local at = (shard - 1) * 6
  return KEYS[at + 1], KEYS[at + 2], KEYS[at + 3], KEYS[at + 4], KEYS[at + 5], KEYS[at + 6]
end

local function say(shard, what, detail)
  items[#items + 1] = {shard, what, detail}
end

-- The delivery that would be the last of a task which has lost a worker.
local function is_suspect(state)
  local attempts, lost, allowed = string.match(state or '', '^(%d+) (%d) (%d+)')
  return lost == '1' and tonumber(attempts) + 1 >= tonumber(allowed)
end

local function parked(stream, group)
  local rows = redis.pcall('XPENDING', stream, group, '-', '+', 1, suspects_consumer)
  return not rows.err and rows[1] or nil
end

local function take_suspect(shard, row)
  local stream, payload, state, entry, meta = keys_of(shard)
  local group, entry_id, count = ARGV[5 + shard], row[1], row[4] + 1
  local found = redis.call('XRANGE', stream, entry_id, entry_id)[1]
  -- The count comes second, as it needs memory: after a first write that needs none it is granted.
  if found then
    redis.call('XCLAIM', stream, group, consumer, 0, entry_id, 'RETRYCOUNT', count, 'JUSTID')
  else
    redis.call('XACK', stream, group, entry_id)
  end
  redis.call('HINCRBY', meta, 'suspects', -1)
  if not found then
    return false
  end
  local id = found[2][2]
  local record, past = redis.call('HGET', payload, id), redis.call('HGET', state, id)
  say(shard, 'rows', {{entry_id, id, count, 'suspect', record, past}})
  return true
end

local function read_group(stream, group)
  local reply = redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', limit, 'STREAMS', stream, '>')
  if reply and reply.err and string.find(reply.err, 'NOGROUP', 1, true) then
    -- At 0: what was added before the group was made is to be delivered too.
    local made = redis.pcall('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
    if made.err then
      return made
    end
    reply = redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', limit, 'STREAMS', stream, '>')
  end
  return reply
end

local function row_of(shard, entry_id, fields)
  local stream, payload, state, entry, meta = keys_of(shard)
  local id = fields[1] == 'id' and fields[2] or ''
  if id == '' then
    return {entry_id, '', 1, 'task', false, false}
  end
  local place = redis.call('HGET', entry, id)
  if place and place_of(place) ~= entry_id then
    return {entry_id, id, 1, 'second', false, false}
  elseif not place and redis.call('HEXISTS', payload, id) == 1 then
    redis.call('HSET', entry, id, entry_id)
  end
  local past = redis.call('HGET', state, id)
  if is_suspect(past) then
    redis.call('XCLAIM', stream, ARGV[5 + shard], suspects_consumer, 0, entry_id, 'RETRYCOUNT', 0, 'JUSTID')
    redis.call('HINCRBY', meta, 'suspects', 1)
    return nil
  elseif max_bytes <= 0 then
    return {entry_id, id, 1, 'later', false, past}
  end
  local record = redis.call('HGET', payload, id)
  max_bytes = max_bytes - #(record or '')
  return {entry_id, id, 1, 'task', record, past}
end

-- How long new deliveries had waited since they were ready: their entry IDs tell, by Redis' own clock.
local function note_started(shard, rows)
  local meter, now, longest, sum = select(6, keys_of(shard)), clock(''), 0, 0
  for _, row in ipairs(rows) do
    local waited = math.max(now - tonumber(string.match(row[1], '^%d+')), 0)
    longest, sum = math.max(longest, waited), sum + waited
  end
  meter_add(meter, now, {0, 0, 0, #rows, longest, sum})
end

local function fetch(shard)
  local stream = keys_of(shard)
  local reply = read_group(stream, ARGV[5 + shard])
  if not reply then
    return
  elseif reply.err then
    return say(shard, 'error', reply.err)
  end
  local rows, parked_now = {}, false
  for _, one in ipairs(reply[1][2]) do
    local row = row_of(shard, one[1], one[2] or {})
    if row then
      rows[#rows + 1] = row
    else
      parked_now = true
    end
  end
  limit = limit - #rows
  if #rows > 0 then
    note_started(shard, rows)
    say(shard, 'rows', rows)
  end
  if parked_now then
    say(shard, 'suspects', 0)
  end
end

-- true where the queue may be fetched from; stops everything by taking a suspect.
local function look_at(shard)
  local stream, _, _, _, meta = keys_of(shard)
  local flags = redis.call('HMGET', meta, 'paused', 'suspects')
  if flags[1] then
    say(shard, 'paused', '')
    return false, false
  elseif flags[2] and tonumber(flags[2]) > 0 then
    local row = parked(stream, ARGV[5 + shard])
    if not row then
      redis.call('HDEL', meta, 'suspects')
    elseif not alone then
      say(shard, 'suspects', row[3])
    elseif take_suspect(shard, row) then
      return false, true
    end
  end
  return true, false
end

-- Whether an error names a state of the server that passes, and not what is wrong with one shard.
local function is_passing(text)
  for _, word in ipairs({'READONLY', 'MISCONF', 'NOREPLICAS', 'OOM'}) do
    if string.find(text, word, 1, true) then
      return true
    end
  end
end

-- The first such error, where nothing was delivered: the call as a whole has failed.
local function outage()
  local found
  for _, item in ipairs(items) do
    if item[2] == 'rows' then
      return nil
    elseif item[2] == 'error' and is_passing(item[3]) then
      found = found or item[3]
    end
  end
  return found
end

-- A key of the wrong type in one shard must not strand what the others delivered.
local function guarded(work, shard)
  local ok, first, second = pcall(work, shard)
  if not ok then
    say(shard, 'error', type(first) == 'table' and first.err or tostring(first))
    return false, false
  end
  return first, second
end

local open = {}
for shard = 1, shards do
  local may_fetch, took_suspect = guarded(look_at, shard)
  if took_suspect then
    return items
  elseif may_fetch then
    open[#open + 1] = shard
  end
end
for _, shard in ipairs(open) do
  if limit <= 0 then
    break
  end
  guarded(fetch, shard)
end
local state = outage()
return state and redis.error_reply(state) or items
