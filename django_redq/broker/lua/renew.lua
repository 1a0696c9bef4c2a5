-- Keeps the ownership of deliveries that a consumer holds.
-- KEYS   stream payload entry
-- ARGV   group consumer now hold_ms (id entry_id count)...
-- REPLY  one integer a task: 1 kept, 0 somebody else has it, 2 it is settled or gone
-- XCLAIM of an entry whose record is gone drops its pending row, so such a task is kept by a mark on its
-- place instead: '<entry ID> <until ms>'. The janitor gives it a new entry once the mark has lapsed.
local stream, payload, entry = KEYS[1], KEYS[2], KEYS[3]
local group, consumer, now, hold_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
--@include clock digits pending_row place_of holds

local replies, claimed, marked = {}, {}, {}
for i = 5, #ARGV, 3 do
  local id, entry_id, count = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local verdict, row = holds(stream, entry, group, consumer, id, entry_id, count)
  local reply = verdict == 'stale' and 0 or 2
  if verdict == 'mine' then
    if row and redis.call('XRANGE', stream, entry_id, entry_id)[1] then
      claimed[#claimed + 1] = entry_id
      reply = 1
    elseif redis.call('HEXISTS', payload, id) == 1 then
      marked[#marked + 1], marked[#marked + 2] = id, entry_id .. ' ' .. digits(clock(now) + tonumber(hold_ms))
      reply = 1
    end
  end
  replies[#replies + 1] = reply
end
if #claimed > 0 then
  local claim = {'XCLAIM', stream, group, consumer, 0}
  for _, entry_id in ipairs(claimed) do
    claim[#claim + 1] = entry_id
  end
  claim[#claim + 1] = 'JUSTID'
  redis.call(unpack(claim))
end
-- Last, as it needs memory: where there is none the others are renewed all the same.
if #marked > 0 then
  redis.call('HSET', entry, unpack(marked))
end
return replies
