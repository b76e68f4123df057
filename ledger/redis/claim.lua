-- Claims an entry: step by step the law of `Store::claim`.
--
--   KEYS[1]  the entry
--   ARGV[1]  owner: who claims
--   ARGV[2]  fence: the queue's token of this delivery in decimal digits, or '' if it has none
--   ARGV[3]  fingerprint of the input, as JSON, or '' if it is not to be compared
--   ARGV[4]  lease, in milliseconds
--   ARGV[5]  what an expired lease means: 'spent', or 'take-over', or the milliseconds within which it may be taken over
--   ARGV[6]  ttl of an entry that is spent, in milliseconds
--
--   {'granted', now, token, since, until, recovering}     {'busy', now, until}      {'spent', now, since}
--   {'done', now, at, expires, result or nothing}         {'collision', now, fingerprint}   {'stale', now, fence}
local key, owner, fence, fingerprint = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local lease, expired, ttl = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Tokens of queues have 64 bits, and numbers of Lua 53: they are compared as digits.
local function below(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

-- Redis removes a key when its time has passed; for the ledger it is gone when its time has come.
local function expire(at)
  redis.call('PEXPIREAT', key, at - 1)
end

local kind = redis.call('TYPE', key).ok

-- An entry that was only marked as seen is its ttl, as text; what is left of that says when it was marked.
if kind == 'string' then
  local expires = now + redis.call('PTTL', key) + 1
  return {'done', now, expires - redis.call('GET', key), expires}
end

if kind == 'none' then
  redis.call('HSET', key, 'owner', owner, 'token', 1, 'since', now, 'until', now + lease)
  if fence ~= '' then redis.call('HSET', key, 'fence', fence) end
  if fingerprint ~= '' then redis.call('HSET', key, 'fingerprint', fingerprint) end
  if expired == 'spent' then
    redis.call('HSET', key, 'expires', now + lease + ttl)
    expire(now + lease + ttl)
  end
  return {'granted', now, 1, now, now + lease, 0}
end

local entry = redis.call(
  'HMGET', key, 'token', 'fence', 'fingerprint', 'since', 'until', 'done', 'expires', 'result'
)
local token, its_fence, its_fingerprint, since = tonumber(entry[1]), entry[2], entry[3], tonumber(entry[4])
local ends, done, expires, result = tonumber(entry[5]), tonumber(entry[6]), tonumber(entry[7]), entry[8]

if its_fingerprint and fingerprint ~= '' and its_fingerprint ~= fingerprint then
  return {'collision', now, its_fingerprint}
end
if done then
  return {'done', now, done, expires, result}
end
if its_fence and fence ~= '' and below(fence, its_fence) then
  return {'stale', now, its_fence}
end
if ends > now then
  return {'busy', now, ends}
end
if expired == 'spent' or (expired ~= 'take-over' and since + expired <= now) then
  return {'spent', now, since}
end

redis.call('HSET', key, 'owner', owner, 'token', token + 1, 'until', now + lease)
if fence ~= '' then redis.call('HSET', key, 'fence', fence) end
if fingerprint ~= '' then redis.call('HSET', key, 'fingerprint', fingerprint) end
-- Nobody knows what will become of it, so it stays, even if an earlier claim had another opinion.
redis.call('HDEL', key, 'expires')
redis.call('PERSIST', key)
return {'granted', now, token + 1, since, now + lease, 1}
