-- next_chunk(chunk, bytes) -> how many letters to read after a chunk of so many bytes: what strangers wrote may have
-- megabytes each. The first chunk is 1.
local function next_chunk(chunk, bytes)
  return bytes > 100000 and 1 or math.min(chunk * 3, 15)
end
