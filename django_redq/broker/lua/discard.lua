-- Removes dead letters for good, with the tasks that they are about.
-- KEYS   payload state entry dlq meta
-- ARGV   (id dead_id)...
-- REPLY  one integer a letter: 1 removed, 0 no such letter
-- `dead_id` '' means whichever letter this task has; `id` '' means whatever letter stands at `dead_id`.
-- A letter that no task is dead by (a tombstone, or what somebody else wrote there) goes alone, and a
-- live task of the same ID is not touched.
local payload, state, entry, dlq, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
--@include fields_of dead_by

local function remove_task(id, dead_id)
  redis.call('XDEL', dlq, dead_id)
  redis.call('HDEL', entry, id)
  redis.call('HDEL', state, id)
  redis.call('HDEL', payload, id)
  return 1
end

local function remove_letter(id, dead_id)
  local row = redis.call('XRANGE', dlq, dead_id, dead_id)[1]
  local letter = row and fields_of(row)
  if not row or (id ~= '' and letter.id ~= id) then
    return 0
  elseif letter.id and dead_by(entry, letter.id) == dead_id then
    return remove_task(letter.id, dead_id)
  end
  redis.call('XDEL', dlq, dead_id)
  if letter.reason == 'missing_payload' then
    redis.call('HINCRBY', meta, 'tombstones', -1)
  end
  return 1
end

local replies = {}
for i = 1, #ARGV, 2 do
  local id, dead_id = ARGV[i], ARGV[i + 1]
  local dead = dead_by(entry, id)
  if dead and (dead_id == '' or dead_id == dead) then
    replies[#replies + 1] = remove_task(id, dead)
  else
    replies[#replies + 1] = dead_id ~= '' and remove_letter(id, dead_id) or 0
  end
end
return replies
