-- Takes one dead letter back into the queue with another record, its attempts and errors reset.
-- KEYS   delay payload state entry stream dlq groups
-- ARGV   now wake_channel due_channel shard when id dead_id record
-- REPLY  the ms at which it is due; 'gone' (the task is not dead by this letter); 'missing' (no payload)
local delay, payload, state, entry, stream, dlq, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local now, wake_channel, due_channel, shard, when, id, dead_id, record = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
--@include clock digits due_at fields_of dead_by letter_at put_ready group_remove replay_letter tell tell_sooner

now = clock(now)
local due = due_at(when, now)
if dead_by(entry, id) == dead_id and redis.call('HEXISTS', payload, id) == 1 then
  redis.call('HSET', payload, id, record)
end
local became = replay_letter(id, dead_id, due, now)
if became ~= 'replayed' then
  return became
elseif due > now then
  tell_sooner(delay, due_channel, shard, due)
else
  tell(wake_channel, shard)
end
return digits(due)
