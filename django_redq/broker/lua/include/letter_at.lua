-- letter_at(dlq, dead_id) -> the fields of the dead letter at this entry ID, or nil: there is none.
local function letter_at(dlq, dead_id)
  local row = redis.call('XRANGE', dlq, dead_id, dead_id)[1]
  return row and fields_of(row)
end
