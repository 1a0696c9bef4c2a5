-- Writes down how a queue is laid out, unless that was decided before.
-- KEYS   meta
-- ARGV   layout shards group
-- REPLY  {layout, shards, group} as they stand
local meta = KEYS[1]
local layout, shards, group = ARGV[1], ARGV[2], ARGV[3]

local stands = redis.call('HMGET', meta, 'layout', 'shards', 'group')
if stands[1] and stands[2] and stands[3] then
  return stands
end
redis.call('HSETNX', meta, 'layout', layout)
redis.call('HSETNX', meta, 'shards', shards)
redis.call('HSETNX', meta, 'group', group)
return redis.call('HMGET', meta, 'layout', 'shards', 'group')
