-- replay_letter(id, dead_id, due, now, letter) -> 'replayed'; 'gone': the task is not dead by this letter, '' being
-- any; 'missing': it has no payload. Tells nobody: the script does, once for all. `letter` are the fields at `dead_id`,
-- nil where the caller has not read them. Uses the script's delay payload state entry stream dlq groups.
local function replay_letter(id, dead_id, due, now, letter)
  local dead = dead_by(entry, id)
  if not dead or (dead_id ~= '' and dead ~= dead_id) then
    return 'gone'
  elseif redis.call('HEXISTS', payload, id) == 0 then
    return 'missing'
  end
  letter = letter or letter_at(dlq, dead)
  redis.call('HSET', state, id, '0 0 0 ' .. dead .. ' ')
  if due > now then
    redis.call('ZADD', delay, digits(due), id)
    redis.call('HDEL', entry, id)
  else
    put_ready(stream, entry, id)
  end
  redis.call('XDEL', dlq, dead)
  if letter then
    group_remove(groups, letter)
  end
  return 'replayed'
end
