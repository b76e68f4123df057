#!/usr/bin/env bash
# A worker that pulls: leases a job, keeps the lease alive while it works, and settles it. Needs curl 7.82 or later.
set -euo pipefail

server=${SEMEL_SERVER:-http://127.0.0.1:7477}
queue=${1:-orders}
lease_seconds=${LEASE_SECONDS:-30}

call() {
  curl --silent --show-error --fail-with-body --retry 5 --retry-connrefused --max-time 60 \
    --header "Authorization: Bearer ${SEMEL_API_KEY:?is the API key}" --json "$2" "$server/v1/$1"
}

# Enough for ids. Read payloads with jq, or in a language that knows JSON.
field() { grep -o "\"$1\":\"$2_[0-9a-z]*\"" <<<"$3" | head -n 1 | cut -d '"' -f 4; }

# The work itself. Its exit code says what became of it: 0 done, 75 not now, 65 never, anything else try again.
work() {
  echo "working on $1"
  sleep "${WORK_SECONDS:-0}"
}

# A third of the lease, so that two beats in a row may be lost.
heartbeat() {
  while sleep "$(awk "BEGIN { print $lease_seconds / 3 }")"; do
    call "jobs/$1/extend" "{\"lease\":\"$2\",\"seconds\":$lease_seconds}" >/dev/null || echo "$1: no heartbeat" >&2
  done
}

settle() {
  local id=$1 lease=$2 code=$3
  case $code in
    0) call "jobs/$id/ack" "{\"lease\":\"$lease\",\"effect\":{\"outcome\":\"applied\"}}" ;;
    75) call "jobs/$id/defer" "{\"lease\":\"$lease\",\"retryAfter\":60}" ;;
    65) call "jobs/$id/nack" "{\"lease\":\"$lease\",\"retryable\":false,\"reason\":\"it can never work\"}" ;;
    *) call "jobs/$id/nack" "{\"lease\":\"$lease\",\"reason\":\"exit code $code\"}" ;;
  esac
  echo
}

# A signal lets the job at hand end first. (The shell looks at signals between commands, so it may take until the end of a wait.)
trap '[ -n "${busy:-}" ] || exit 0; stop=1' TERM INT
while [ -z "${stop:-}" ]; do
  leased=$(call "queues/$queue/lease" "{\"max\":1,\"wait\":10,\"leaseSeconds\":$lease_seconds}") || { sleep 5; continue; }
  id=$(field id job "$leased") || continue
  lease=$(field lease lse "$leased")
  busy=1
  heartbeat "$id" "$lease" &
  beating=$!
  work "$id" && code=0 || code=$?
  kill "$beating" 2>/dev/null || true
  # Refused with 409 if another worker has the job by now; then it is that worker's.
  settle "$id" "$lease" "$code" || echo "$id was not settled" >&2
  busy=
done
