-- place_of(place) -> the entry ID of a task that is READY or RUNNING; nil for a dead one, and for garbage.
local function place_of(place)
  return string.match(place, '^%d+%-%d+')
end
