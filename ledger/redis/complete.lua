-- Makes an entry done that is still its holder's. For a holder that has done so before nothing changes.
--
--   KEYS[1]  the entry
--   ARGV[1]  owner, as it claimed
--   ARGV[2]  token, as it was granted
--   ARGV[3]  result, as JSON
--   ARGV[4]  ttl, in milliseconds from now
--
--   1, or nil if the claim is lost
local key, owner, token, result, ttl = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

if redis.call('TYPE', key).ok ~= 'hash' then return false end
local entry = redis.call('HMGET', key, 'owner', 'token', 'done')
if entry[1] ~= owner or entry[2] ~= token then return false end
if entry[3] then return 1 end

redis.call('HSET', key, 'done', now, 'expires', now + ttl, 'result', result)
-- Redis removes a key when its time has passed; for the ledger it is gone when its time has come.
redis.call('PEXPIREAT', key, now + ttl - 1)
return 1
