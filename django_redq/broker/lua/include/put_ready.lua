-- put_ready(stream, entry, id, note) -> entry ID: READY from here on, at the tail of the stream.
-- `note`, if any, is appended to its place.
local function put_ready(stream, entry, id, note)
  local entry_id = redis.call('XADD', stream, '*', 'id', id)
  redis.call('HSET', entry, id, entry_id .. (note or ''))
  return entry_id
end
