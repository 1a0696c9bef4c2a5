-- died_at(entry_id, letter) -> ms since the epoch at which a dead letter was written.
-- What somebody else wrote says no time: its entry ID does.
local function died_at(entry_id, letter)
  return tonumber(string.match(letter.at or '', '^%d+$') or string.match(entry_id, '^%d+'))
end
