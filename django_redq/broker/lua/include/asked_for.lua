-- asked_for(entry_id, letter, args, first) -> whether a dead letter has all that a filter names.
-- The filter is (name value)... in `args` from `first` on: a field of the letter, '' being the same as none;
-- `since` and `until`, ms of its death, both meant; `text`, in small letters, part of its error, of whose first 64 KiB.
local function asked_for(entry_id, letter, args, first)
  for i = first, #args, 2 do
    local name, value = args[i], args[i + 1]
    local fits
    if name == 'since' then
      fits = died_at(entry_id, letter) >= tonumber(value)
    elseif name == 'until' then
      fits = died_at(entry_id, letter) <= tonumber(value)
    elseif name == 'text' then
      fits = string.find(string.lower(string.sub(letter.error or '', 1, 65536)), value, 1, true)
    else
      fits = (letter[name] or '') == value
    end
    if not fits then
      return false
    end
  end
  return true
end
