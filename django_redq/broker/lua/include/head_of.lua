-- head_of(record, state) -> what a list shows of a task: the start of its record, which has all but the payload,
-- and its attempts. A record may have 256 KiB, most of it payload.
local function head_of(record, state)
  return string.sub(record or '', 1, 400), string.match(state or '', '^%d+') or '0'
end
