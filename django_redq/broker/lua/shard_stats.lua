-- How full a shard is and who works on it, as of one moment; read-only.
-- KEYS   delay stream dlq lease meta meter
-- ARGV   now group suspects_consumer last_byte
-- REPLY  {scheduled, ms since the first one was due or '', entries of the stream, parked suspects,
--         ms that the oldest READY one has waited or '', dead letters, lease owner or '',
--         {paused or nil, done, retried, dead so far}, {{consumer, pending, ms idle}...}, now, the first bytes of the meter}
-- What is due is told by `now`, what has waited by Redis' own clock, since entry IDs are.
local delay, stream, dlq, lease, meta, meter = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local now, group, suspects_consumer, last_byte = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
--@include clock digits last_delivered

local function pairs_of(flat)
  local named = {}
  for i = 1, #flat, 2 do
    named[flat[i]] = flat[i + 1]
  end
  return named
end

local parked, consumers = 0, {}
local known = redis.pcall('XINFO', 'CONSUMERS', stream, group)
for _, flat in ipairs(known.err and {} or known) do
  local consumer = pairs_of(flat)
  if consumer.name == suspects_consumer then
    parked = consumer.pending
  else
    consumers[#consumers + 1] = {consumer.name, consumer.pending, consumer.idle}
  end
end

-- The first entry that nobody holds: not delivered yet, or parked.
local function oldest_ready()
  local undelivered = redis.call('XRANGE', stream, '(' .. last_delivered(stream, group), '+', 'COUNT', 1)[1]
  local held = parked > 0 and redis.call('XPENDING', stream, group, '-', '+', 1, suspects_consumer)[1]
  return (held or undelivered or {})[1]
end

local function waited(since, till)
  return since and digits(math.max(till - tonumber(since), 0)) or ''
end

local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')[2]
local late = head and tonumber(head) <= clock(now)
local ready = oldest_ready()
local lately = redis.pcall('GETRANGE', meter, 0, last_byte)
return {
  redis.call('ZCARD', delay), waited(late and head, clock(now)), redis.call('XLEN', stream), parked,
  waited(ready and string.match(ready, '^%d+'), clock('')), redis.call('XLEN', dlq),
  redis.call('GET', lease) or '', redis.call('HMGET', meta, 'paused', 'done', 'retried', 'dead'), consumers,
  digits(clock(now)), type(lately) == 'string' and lately or '',
}
