-- Pages through a shard's dead letters in the order of their deaths, or against it; read-only.
-- KEYS   dlq
-- ARGV   now newest_first from to scan limit older_than_ms (name value)...
-- REPLY  {where the next page starts or '' after the last, {entry ID, task ID or ''}..., letters looked at}
-- Only letters that have all that the names ask for (asked_for.lua), and died `older_than_ms` ago or earlier,
-- '' being any age.
-- At most `scan` letters are looked at and `limit` returned a call, so that a long queue costs many short calls.
local dlq = KEYS[1]
local now, newest_first, from, to, scan, limit, older_than_ms = ARGV[1], ARGV[2] == '1', ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
--@include clock fields_of died_at asked_for

-- Letters read at a time: each may have 16 KiB, and the first may tell that no more are wanted.
local CHUNK = 20
local youngest = older_than_ms ~= '' and clock(now) - tonumber(older_than_ms) or math.huge
local found, looked_at = {}, 0

-- false where no more are wanted.
local function take(row)
  local letter = fields_of(row)
  if died_at(row[1], letter) > youngest then
    -- Oldest first, those behind it died later still.
    return newest_first
  elseif asked_for(row[1], letter, ARGV, 8) then
    found[#found + 1] = {row[1], letter.id or ''}
  end
  return true
end

while scan > 0 do
  local count = math.min(CHUNK, scan)
  local rows = redis.call(newest_first and 'XREVRANGE' or 'XRANGE', dlq, from, to, 'COUNT', count)
  for _, row in ipairs(rows) do
    if not take(row) then
      return {'', found, looked_at}
    end
    looked_at = looked_at + 1
    from = '(' .. row[1]
    if #found >= limit then
      return {from, found, looked_at}
    end
  end
  if #rows < count then
    return {'', found, looked_at}
  end
  scan = scan - count
end
return {from, found, looked_at}
