-- Removes dead letters for good, their payloads included.
-- KEYS   payload state entry dlq meta
-- ARGV   (id dead_id)...
-- REPLY  one integer a letter: 1 removed, 0 no such letter
-- `dead_id` '' means whichever letter this task has; `id` '' means a tombstone, named by `dead_id`.
local payload, state, entry, dlq, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local function discard(id, dead_id)
  if id == '' then
    local removed = redis.call('XDEL', dlq, dead_id)
    redis.call('HINCRBY', meta, 'tombstones', -removed)
    return removed
  end
  local dead = string.match(redis.call('HGET', entry, id) or '', '^dlq (%S+)')
  if not dead or (dead_id ~= '' and dead ~= dead_id) then
    return 0
  end
  redis.call('XDEL', dlq, dead)
  redis.call('HDEL', entry, id)
  redis.call('HDEL', state, id)
  redis.call('HDEL', payload, id)
  return 1
end

local replies = {}
for i = 1, #ARGV, 2 do
  replies[#replies + 1] = discard(ARGV[i], ARGV[i + 1])
end
return replies
