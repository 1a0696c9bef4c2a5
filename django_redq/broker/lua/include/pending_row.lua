-- pending_row(stream, group, entry_id) -> {entry ID, consumer, idle ms, deliveries}, or nil: nobody holds it.
local function pending_row(stream, group, entry_id)
  local rows = redis.pcall('XPENDING', stream, group, entry_id, entry_id, 1)
  return not rows.err and rows[1] or nil
end
