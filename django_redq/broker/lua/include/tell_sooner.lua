-- tell_sooner(delay, channel, shard, id): wakes the schedulers where `id` is now the first one due.
local function tell_sooner(delay, channel, shard, id)
  local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')
  if head[1] == id then
    tell(channel, shard .. ' ' .. head[2])
  end
end
