-- Takes new tasks in: those due at once become READY, the others SCHEDULED.
-- KEYS   delay payload entry stream
-- ARGV   now wake_channel due_channel shard (id when body)...
-- REPLY  one integer a task: 1 it is in, 0 another task of this ID exists
local delay, payload, entry, stream = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now, wake_channel, due_channel, shard = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
--@include clock digits due_at put_ready tell tell_sooner

now = clock(now)
local replies, ready, soonest = {}, false, math.huge
for i = 5, #ARGV, 3 do
  local id, when, body = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local due = due_at(when, now)
  local record = '{"at":' .. digits(now) .. (due > now and ',"due":' .. digits(due) or '') .. ',' .. body
  if redis.call('HSETNX', payload, id, record) == 1 then
    if due > now then
      redis.call('ZADD', delay, digits(due), id)
      soonest = math.min(soonest, due)
    else
      put_ready(stream, entry, id)
      ready = true
    end
    replies[#replies + 1] = 1
  else
    -- The body ends in this call's own nonce (or has an ID nobody else makes): finding it is a resend.
    local there = redis.call('HGET', payload, id)
    replies[#replies + 1] = string.sub(there, -#body) == body and 1 or 0
  end
end
if soonest < math.huge then
  tell_sooner(delay, due_channel, shard, soonest)
end
if ready then
  tell(wake_channel, shard)
end
return replies
