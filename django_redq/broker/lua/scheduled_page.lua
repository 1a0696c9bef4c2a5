-- Pages through a shard's SCHEDULED tasks, the soonest first; read-only.
-- KEYS   delay payload state
-- ARGV   score id count
-- REPLY  {task ID, due ms, head of the record, attempts}...
-- Starts behind the task `id` due at `score`, whether it is still there or not; '' is the beginning. Thousands may
-- be due at the same ms, so among those its place is found by halving; of what begins alike and is too long for an
-- ID of ours, one stands for all.
local delay, payload, state = KEYS[1], KEYS[2], KEYS[3]
local score, id, count = ARGV[1], ARGV[2], tonumber(ARGV[3])
--@include cut_id follows head_of

local function rank_behind()
  if score == '' then
    return 0
  end
  local low = redis.call('ZCOUNT', delay, '-inf', '(' .. score)
  local high = redis.call('ZCOUNT', delay, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if follows(cut_id(redis.call('ZRANGE', delay, middle, middle)[1]), id) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

local from, rows = rank_behind(), {}
local flat = redis.call('ZRANGE', delay, from, from + count - 1, 'WITHSCORES')
for i = 1, #flat, 2 do
  local record, attempts = head_of(redis.call('HGET', payload, flat[i]), redis.call('HGET', state, flat[i]))
  rows[#rows + 1] = {cut_id(flat[i]), flat[i + 1], record, attempts}
end
return rows
