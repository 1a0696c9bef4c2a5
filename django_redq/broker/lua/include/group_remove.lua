-- group_remove(groups, letter): a dead letter leaves the count that it was added to (group_add.lua).
local function group_remove(groups, letter)
  if letter.grouped ~= '0' and letter.grouped ~= '1' then
    return
  end
  local name = letter.grouped == '0' and '*' or (letter.kind or '') .. ' ' .. (letter.type or '')
  local group = redis.pcall('HGET', groups, name)
  local count, span = string.match(type(group) == 'string' and group or '', '^(%d+)( %d+ %d+)$')
  if count and tonumber(count) > 1 then
    redis.pcall('HSET', groups, name, digits(tonumber(count) - 1) .. span)
  elseif count then
    redis.call('HDEL', groups, name)
  end
end
