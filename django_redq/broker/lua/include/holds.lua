-- holds(stream, entry, group, consumer, id, entry_id, count) -> verdict, row
--   'mine'     the pending entry is as it was handed over; or its row was tampered away and nobody else has it
--   'settled'  nobody holds it and the task has no place: it is done with
--   'stale'    somebody else holds it, or the task lives elsewhere by now
-- A place is an entry ID or 'dlq <entry ID>'. The former may be followed by ' <ms>', until when its holder
-- keeps a task whose entry vanished (renew.lua), or by ' after <entry ID>', which was handed back (release.lua).
local function holds(stream, entry, group, consumer, id, entry_id, count)
  local row = pending_row(stream, group, entry_id)
  if row and (row[2] ~= consumer or row[4] ~= tonumber(count)) then
    return 'stale'
  end
  local place = redis.call('HGET', entry, id)
  if place then
    return place_of(place) == entry_id and 'mine' or 'stale', row
  end
  return row and 'mine' or 'settled', row
end
