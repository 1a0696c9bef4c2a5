-- dead_by(entry, id) -> the entry ID of the dead letter that a task has, or nil: it is not dead.
local function dead_by(entry, id)
  return string.match(redis.call('HGET', entry, id) or '', '^dlq (%d+%-%d+)$')
end
