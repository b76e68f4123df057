#!/usr/bin/env bash
# Publishes an order as a job: publish.sh 9482. Needs curl 7.82 or later.
#
# The key is made of the order, before the first try, so that every try has the same one: curl's below, and those of whoever
# runs this script again. A publish that got through although its answer was lost is answered with its job.
set -euo pipefail

server=${SEMEL_SERVER:-http://127.0.0.1:7477}
order=$1

curl --silent --show-error --fail-with-body --retry 5 --retry-connrefused --max-time 30 \
  --header "Authorization: Bearer ${SEMEL_API_KEY:?is the API key}" \
  --json "{\"payload\":{\"order\":$order},\"idempotencyKey\":\"order-$order\"}" \
  "$server/v1/queues/orders/jobs"
echo
