-- put_ready(stream, entry, id) -> entry ID: READY from here on, at the tail of the stream.
local function put_ready(stream, entry, id)
  local entry_id = redis.call('XADD', stream, '*', 'id', id)
  redis.call('HSET', entry, id, entry_id)
  return entry_id
end
