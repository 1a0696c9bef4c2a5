-- tell(channel, message): a hint, so a user without the right to the channel gets the work done anyway.
local function tell(channel, message)
  redis.pcall('PUBLISH', channel, message)
end
