// Publishes an order as a job: node publish.mjs 9482
import { call } from './semel.mjs';

const order = Number(process.argv[2]);
// The key is made of the order, before the first try: every try has the same one, also when this program dies and is started
// again. A key that is made inside of a loop of tries, from the clock or at random, protects from nothing.
console.log(JSON.stringify(await call('queues/orders/jobs', { payload: { order }, idempotencyKey: `order-${order}` })));
