-- Forgets consumer names that hold nothing: one's own at a clean stop, those of the dead by the janitor.
-- KEYS   stream
-- ARGV   group min_idle_ms name
-- REPLY  the names that were dropped
-- `name` '' means every consumer that nothing was heard of for `min_idle_ms`. DELCONSUMER drops what a consumer
-- has pending, so the test and the removal are one script.
local stream = KEYS[1]
local group, min_idle_ms, name = ARGV[1], ARGV[2], ARGV[3]

local dropped = {}
local consumers = redis.pcall('XINFO', 'CONSUMERS', stream, group)
if consumers.err then
  return dropped
end
for _, fields in ipairs(consumers) do
  local consumer = {}
  for i = 1, #fields, 2 do
    consumer[fields[i]] = fields[i + 1]
  end
  local meant = name == consumer.name or (name == '' and consumer.idle >= tonumber(min_idle_ms))
  if meant and consumer.pending == 0 then
    redis.call('XGROUP', 'DELCONSUMER', stream, group, consumer.name)
    dropped[#dropped + 1] = consumer.name
  end
end
return dropped
