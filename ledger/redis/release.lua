-- Gives up a claim that is still its holder's and not done.
--
--   KEYS[1]  the entry
--   ARGV[1]  owner, as it claimed
--   ARGV[2]  token, as it was granted
--   ARGV[3]  'forget': certainly nothing happened; 'recover': something may have
--
--   1, or nil if the claim is lost
local key, owner, token, how = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

if redis.call('TYPE', key).ok ~= 'hash' then return false end
local entry = redis.call('HMGET', key, 'owner', 'token', 'done', 'until')
if entry[1] ~= owner or entry[2] ~= token or entry[3] then return false end

if how == 'forget' then
  redis.call('DEL', key)
elseif tonumber(entry[4]) > now then
  redis.call('HSET', key, 'until', now)
end
return 1
