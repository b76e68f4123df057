-- What is known about an entry. Nothing is changed.
--
--   KEYS[1]  the entry
--
--   {now, token, fence, fingerprint, since, until, done, expires, result}, each of the last ones nil if there is none;
--   nil if there is no entry
local key = KEYS[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kind = redis.call('TYPE', key).ok

if kind == 'none' then return false end
-- An entry that was only marked as seen is its ttl, as text; what is left of that says when it was marked.
if kind == 'string' then
  local expires = now + redis.call('PTTL', key) + 1
  local at = expires - redis.call('GET', key)
  return {now, 0, false, false, at, at, at, expires, false}
end

local entry = redis.call(
  'HMGET', key, 'token', 'fence', 'fingerprint', 'since', 'until', 'done', 'expires', 'result'
)
table.insert(entry, 1, now)
return entry
