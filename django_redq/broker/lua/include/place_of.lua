-- place_of(place) -> the entry ID of a task that is READY or RUNNING; 'dlq' for a dead one.
local function place_of(place)
  return string.match(place, '^%S+')
end
