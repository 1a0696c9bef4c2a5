-- Writes dead letters as dead_letter.lua would have left them, many times faster.
-- KEYS   payload state entry dlq
-- ARGV   how many templates, then of each: kind error type traceback body failures;
--        then of each letter: id, ms of its death, number of its template, idempotency key
-- In the texts of a template {n} stands for the letter's own number.
local payload, state, entry, dlq = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local templates, number = {}, tonumber(ARGV[1])
for i = 0, number - 1 do
  local at = 2 + 6 * i
  templates[i + 1] = {ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]}
end

for i = 2 + 6 * number, #ARGV, 4 do
  local id, ms, key = ARGV[i], ARGV[i + 1], ARGV[i + 3]
  local kind, error, exception_type, traceback, body, failures = unpack(templates[tonumber(ARGV[i + 2])])
  local function own(text)
    return (string.gsub(text, '{n}', key))
  end
  local dead = ms .. '-0'
  redis.call('XADD', dlq, dead, 'id', id, 'reason', 'exhausted', 'kind', kind, 'error', own(error),
    'type', exception_type, 'traceback', own(traceback), 'attempts', '3', 'at', ms, 'entry', dead,
    'consumer', 'worker-7-4f1c9a', 'key', 'order-' .. key, 'grouped', '1')
  redis.call('HSET', entry, id, 'dlq ' .. dead)
  redis.call('HSET', payload, id, '{"at":' .. ms .. ',' .. own(body))
  redis.call('HSET', state, id, '3 0 3 ' .. dead .. ' ' .. own(failures))
end
return 1
