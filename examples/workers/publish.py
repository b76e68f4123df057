"""Publishes an order as a job: python3 publish.py 9482"""

import json
import sys

import semel

order = int(sys.argv[1])
# The key is made of the order, before the first try: every try has the same one, also when this program dies and is started
# again. A key that is made inside of a loop of tries, from the clock or at random, protects from nothing.
job = semel.call("queues/orders/jobs", {"payload": {"order": order}, "idempotencyKey": f"order-{order}"})
print(json.dumps(job))
