-- discard_letter(id, dead_id, letter) -> 1 the dead letter is gone for good, with the task that it is about; 0 no such letter.
-- `dead_id` '' means whichever letter this task has; `id` '' means whatever letter stands at `dead_id`.
-- A letter that no task is dead by (a tombstone, or what somebody else wrote there) goes alone, and a
-- live task of the same ID is not touched. `letter` are the fields at `dead_id`, nil where the caller has not read
-- them. Uses the script's payload state entry dlq meta groups.
local function discard_letter(id, dead_id, letter)
  local own = dead_by(entry, id)
  local is_own = own and (dead_id == '' or dead_id == own)
  local at = is_own and own or dead_id
  letter = letter or (at ~= '' and letter_at(dlq, at) or nil)
  if not is_own and not (letter and (id == '' or letter.id == id)) then
    return 0
  end
  local task = is_own and id or letter.id
  redis.call('XDEL', dlq, at)
  if is_own or (task and dead_by(entry, task) == at) then
    redis.call('HDEL', entry, task)
    redis.call('HDEL', state, task)
    redis.call('HDEL', payload, task)
  elseif letter.reason == 'missing_payload' then
    redis.call('HINCRBY', meta, 'tombstones', -1)
  end
  if letter then
    group_remove(groups, letter)
  end
  return 1
end
