-- tell_sooner(delay, channel, shard, due): wakes the schedulers where nothing is due before `due`, just added.
local function tell_sooner(delay, channel, shard, due)
  local head = redis.call('ZRANGE', delay, 0, 0, 'WITHSCORES')
  if tonumber(head[2]) == due then
    tell(channel, shard .. ' ' .. head[2])
  end
end
