-- came_from(state, id) -> the entry ID that a retry, dead letter or replay of this task last left, or nil.
local function came_from(state, id)
  local text = redis.call('HGET', state, id)
  return text and string.match(text, '^%d+ %d %d+ (%S+)')
end
