-- Hands deliveries back that were not run: READY again, at the tail, the attempt not spent.
-- KEYS   stream state entry
-- ARGV   group consumer wake_channel shard (id entry_id count new_state)...
-- REPLY  one integer a task: 1 handed back, 0 stale, 2 it was settled before
-- `new_state` is '' where the state stays: a new entry counts its deliveries from 0 again, so a task
-- that was delivered more than once carries the earlier ones in its state.
local stream, state, entry = KEYS[1], KEYS[2], KEYS[3]
local group, consumer, wake_channel, shard = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
--@include pending_row place_of holds put_ready tell

local function released_before(id, entry_id)
  return string.match(redis.call('HGET', entry, id) or '', ' after (%S+)$') == entry_id
end

local replies, released = {}, false
for i = 5, #ARGV, 4 do
  local id, entry_id, count, new_state = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local verdict = holds(stream, entry, group, consumer, id, entry_id, count)
  if verdict == 'mine' then
    put_ready(stream, entry, id, ' after ' .. entry_id)
    if new_state ~= '' then
      redis.call('HSET', state, id, new_state)
    end
    redis.pcall('XACK', stream, group, entry_id)
    redis.call('XDEL', stream, entry_id)
    released = true
  end
  local was_before = verdict == 'settled' or released_before(id, entry_id)
  replies[#replies + 1] = verdict == 'mine' and 1 or was_before and 2 or 0
end
if released then
  tell(wake_channel, shard)
end
return replies
