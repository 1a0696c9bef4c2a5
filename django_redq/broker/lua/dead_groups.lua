-- How many dead letters of each kind and exception type a shard has; read-only.
-- KEYS   dlq groups
-- ARGV   none
-- REPLY  {letters, {group, '<count> <first ms> <last ms>'...}}, groups named as group_add.lua does
local dlq, groups = KEYS[1], KEYS[2]

return {redis.call('XLEN', dlq), redis.call('HGETALL', groups)}
