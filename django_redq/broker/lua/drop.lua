-- Removes pending entries that stand for no task: garbage, a second entry of a task, a row without an entry.
-- KEYS   stream
-- ARGV   group (owner entry_id)...
-- REPLY  how many were removed; an entry that somebody else holds by now stays
local stream = KEYS[1]
local group = ARGV[1]
--@include pending_row

local dropped = 0
for i = 2, #ARGV, 2 do
  local owner, entry_id = ARGV[i], ARGV[i + 1]
  local row = pending_row(stream, group, entry_id)
  if row and row[2] == owner then
    redis.call('XACK', stream, group, entry_id)
    redis.call('XDEL', stream, entry_id)
    dropped = dropped + 1
  end
end
return dropped
