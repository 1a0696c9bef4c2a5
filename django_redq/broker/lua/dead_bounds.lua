-- How many dead letters a shard has, and which are the newest and the oldest; read-only.
-- KEYS   dlq meta
-- ARGV   none
-- REPLY  {letters, entry ID of the newest or '', tombstones among them, entry ID of the oldest or ''}
local dlq, meta = KEYS[1], KEYS[2]

local newest = redis.call('XREVRANGE', dlq, '+', '-', 'COUNT', 1)[1]
local oldest = redis.call('XRANGE', dlq, '-', '+', 'COUNT', 1)[1]
local tombstones = redis.call('HGET', meta, 'tombstones')
return {redis.call('XLEN', dlq), newest and newest[1] or '', tonumber(tombstones or '') or 0, oldest and oldest[1] or ''}
