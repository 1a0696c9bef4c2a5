-- Holds a shard's lease and moves what is due to the stream; changes nothing without the lease.
-- KEYS   lease delay entry stream
-- ARGV   now instance lease_ttl_ms limit wake_channel shard
-- REPLY  {1, tasks moved, when the next one is due or '', now}
--        {0, ms until the other instance's lease lapses, '', now} where the lease is not ours
local lease, delay, entry, stream = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now, instance, lease_ttl_ms, limit, wake_channel, shard = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
--@include clock digits put_ready tell

now = clock(now)
local owner, lapses_in = redis.call('GET', lease), redis.call('PTTL', lease)
if owner ~= instance and lapses_in >= 0 then
  return {0, lapses_in, '', digits(now)}
elseif owner ~= instance then
  -- Free, or without an end: that is no scheduler's, and nobody else would ever free it.
  redis.call('SET', lease, instance, 'PX', lease_ttl_ms)
elseif lapses_in < tonumber(lease_ttl_ms) * 2 / 3 then
  -- PEXPIRE, since SET is refused when memory is full: a lease must not be lost for that.
  redis.call('PEXPIRE', lease, lease_ttl_ms)
end

local ids = redis.call('ZRANGEBYSCORE', delay, '-inf', digits(now), 'LIMIT', 0, limit)
for _, id in ipairs(ids) do
  put_ready(stream, entry, id)
end
if #ids > 0 then
  redis.call('ZREM', delay, unpack(ids))
end
local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')
if #ids > 0 then
  tell(wake_channel, shard)
end
return {1, #ids, head[2] or '', digits(now)}
