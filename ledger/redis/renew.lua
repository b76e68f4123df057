-- Extends the lease of a claim that is still its holder's.
--
--   KEYS[1]  the entry
--   ARGV[1]  owner, as it claimed
--   ARGV[2]  token, as it was granted
--   ARGV[3]  lease, in milliseconds from now
--
--   {now, until}, or nil if the claim is lost
local key, owner, token, lease = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

if redis.call('TYPE', key).ok ~= 'hash' then return false end
local entry = redis.call('HMGET', key, 'owner', 'token', 'done', 'expires')
if entry[1] ~= owner or entry[2] ~= token or entry[3] then return false end

local ends = now + lease
redis.call('HSET', key, 'until', ends)
if entry[4] and tonumber(entry[4]) < ends then
  redis.call('HSET', key, 'expires', ends)
  redis.call('PEXPIREAT', key, ends - 1)
end
return {now, ends}
