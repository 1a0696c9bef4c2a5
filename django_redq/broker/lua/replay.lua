-- Takes dead letters back into the queue, their attempts and errors reset.
-- KEYS   delay payload state entry stream dlq groups
-- ARGV   now wake_channel due_channel shard when (id dead_id)...
-- REPLY  one text a letter: the ms at which it is due; 'gone' (no such letter); 'missing' (no payload)
-- `dead_id` is the letter that is meant, or '' for whichever this task has.
local delay, payload, state, entry, stream, dlq, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local now, wake_channel, due_channel, shard, when = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
--@include clock digits due_at fields_of dead_by letter_at put_ready group_remove replay_letter tell tell_sooner

now = clock(now)
local due = due_at(when, now)
local replies, replayed = {}, false
for i = 6, #ARGV, 2 do
  local became = replay_letter(ARGV[i], ARGV[i + 1], due, now)
  replayed = replayed or became == 'replayed'
  replies[#replies + 1] = became == 'replayed' and digits(due) or became
end
if replayed and due > now then
  tell_sooner(delay, due_channel, shard, due)
elseif replayed then
  tell(wake_channel, shard)
end
return replies
