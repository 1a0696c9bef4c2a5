-- cut_id(id) -> at most as many bytes as a task ID of ours can have; what is longer somebody else wrote.
local function cut_id(id)
  return string.sub(id, 1, 1025)
end
