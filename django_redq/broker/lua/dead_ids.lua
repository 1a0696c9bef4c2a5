-- Pages through a shard's dead letters in the order of their deaths, or against it; read-only.
-- KEYS   dlq
-- ARGV   now newest_first from to scan limit older_than_ms (name value)...
-- REPLY  {where the next page starts or '' after the last, {entry ID, task ID or ''}..., letters looked at}
-- Only letters that have all that the names ask for (asked_for.lua), and died `older_than_ms` ago or earlier,
-- '' being any age.
-- At most `scan` letters are looked at, of a megabyte or a little more, and `limit` returned a call, so that a long
-- queue costs many short calls.
local dlq = KEYS[1]
local now, newest_first, from, to, scan, limit, older_than_ms = ARGV[1], ARGV[2] == '1', ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
--@include clock fields_of bytes_of next_chunk died_at asked_for

local MAX_BYTES = 1048576
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

local chunk, bytes = 1, 0
while scan > 0 and bytes < MAX_BYTES do
  chunk = math.min(chunk, scan)
  local rows = redis.call(newest_first and 'XREVRANGE' or 'XRANGE', dlq, from, to, 'COUNT', chunk)
  local before = bytes
  for _, row in ipairs(rows) do
    if not take(row) then
      return {'', found, looked_at}
    end
    looked_at = looked_at + 1
    from = '(' .. row[1]
    if #found >= limit then
      return {from, found, looked_at}
    end
    bytes = bytes + bytes_of(row)
  end
  if #rows < chunk then
    return {'', found, looked_at}
  end
  scan = scan - chunk
  chunk = next_chunk(chunk, bytes - before)
end
return {from, found, looked_at}
