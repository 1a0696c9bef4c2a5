-- part_of(text, now) -> a shard's part of a bulk as a table; a new one where there is none, or where it is garbled:
-- what was done is no dead letter any more, so that to begin anew does nothing twice.
local function part_of(text, now)
  local state, cursor, till, counts, begun, ended =
    string.match(text or '', '^(%l+) (%S+) (%S+) (%d+ %d+ %d+ %d+) (%d+) (%d+)$')
  if not state then
    return {state = 'going', cursor = '-', till = '-', looked_at = 0, changed = 0, gone = 0, missing = 0,
      begun = now, ended = 0}
  end
  local looked_at, changed, gone, missing = string.match(counts, '^(%d+) (%d+) (%d+) (%d+)$')
  return {state = state, cursor = cursor, till = till, looked_at = tonumber(looked_at), changed = tonumber(changed),
    gone = tonumber(gone), missing = tonumber(missing), begun = tonumber(begun), ended = tonumber(ended)}
end
