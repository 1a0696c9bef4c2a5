-- digits(number) -> its decimal text; tostring and `..` keep 14 digits only.
local function digits(number)
  return string.format('%.0f', number)
end
