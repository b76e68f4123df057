# A server on /var/lib/semel with some jobs, as `semel serve` leaves and keeps it. It goes on running.
set -euo pipefail
semel serve --data /var/lib/semel >/var/lib/semel.log 2>&1 &
for _ in $(seq 100); do
  if curl --silent --fail http://127.0.0.1:7477/readyz >/dev/null; then break; fi
  sleep 0.1
done
mkdir -p /var/lib/backups
semel=http://127.0.0.1:7477/v1
curl --silent --show-error --fail --output /dev/null -X PUT $semel/queues/orders --json '{}'
for order in 1 2 3; do
  curl --silent --show-error --fail --output /dev/null $semel/queues/orders/jobs \
    --json "{\"payload\":{\"order\":$order},\"idempotencyKey\":\"order-$order\"}"
done
