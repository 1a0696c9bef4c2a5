-- Forgets a consumer that has stopped.
-- KEYS   consumers
-- ARGV   name
-- REPLY  1 it was noted, 0 it was not
local consumers = KEYS[1]
local name = ARGV[1]

return redis.call('HDEL', consumers, name)
