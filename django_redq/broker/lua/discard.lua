-- Removes dead letters for good, with the tasks that they are about.
-- KEYS   payload state entry dlq meta groups
-- ARGV   (id dead_id)...
-- REPLY  one integer a letter: 1 removed, 0 no such letter
-- `dead_id` '' means whichever letter this task has; `id` '' means whatever letter stands at `dead_id`.
local payload, state, entry, dlq, meta, groups = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
--@include digits fields_of dead_by letter_at group_remove discard_letter

local replies = {}
for i = 1, #ARGV, 2 do
  replies[#replies + 1] = discard_letter(ARGV[i], ARGV[i + 1])
end
return replies
