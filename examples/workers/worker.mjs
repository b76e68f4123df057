// A worker that pulls: leases a job, keeps the lease alive while it works, and settles it.
import { Problem, call } from './semel.mjs';

const queue = process.argv[2] ?? 'orders';
const leaseSeconds = Number(process.env.LEASE_SECONDS ?? 30);
const sleep = (seconds) => new Promise((wake) => setTimeout(wake, seconds * 1000));

// A signal lets the job at hand end first. One that is just being handed out is delivered again when its lease ends.
let [busy, stop] = [false, false];
for (const name of ['SIGTERM', 'SIGINT']) process.on(name, () => (busy ? (stop = true) : process.exit()));

class Busy extends Error {} // Not now: new Busy('why', { cause: seconds }), and no attempt is burned.
class Never extends Error {} // It can never work: to the dead letters.

// Returns what became of the effect. A service that takes an idempotency key gets that of the job, on every attempt.
async function work(job) {
  await sleep(Number(process.env.WORK_SECONDS ?? 0));
  console.log(`order ${job.payload.order}: charged under ${job.idempotencyKey}`);
  return { result: { order: job.payload.order }, effect: { outcome: 'applied', key: job.idempotencyKey } };
}

// A third of the lease, so that two beats in a row may be lost.
function heartbeat({ id, lease }) {
  const beat = () => call(`jobs/${id}/extend`, { lease, seconds: leaseSeconds }, 1);
  return setInterval(() => beat().catch((e) => console.error(`${id}: no heartbeat: ${e.message}`)), leaseSeconds * 333);
}

async function verdict(job) {
  try {
    return ['ack', await work(job)];
  } catch (error) {
    if (error instanceof Busy) return ['defer', { retryAfter: error.cause ?? 60 }];
    return ['nack', { retryable: !(error instanceof Never), reason: String(error).slice(0, 500) }];
  }
}

async function handle(job) {
  const beating = heartbeat(job);
  const [action, body] = await verdict(job);
  clearInterval(beating);
  try {
    await call(`jobs/${job.id}/${action}`, { lease: job.lease, ...body });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    // stale_lease: another worker has the job by now, and it is that worker's to settle.
    console.error(`${job.id}: not settled: ${error.code}`);
  }
}

while (!stop) {
  try {
    const { jobs } = await call(`queues/${queue}/lease`, { max: 1, wait: 10, leaseSeconds });
    for (const job of jobs) {
      busy = true;
      await handle(job);
      busy = false;
    }
  } catch (error) {
    if (error instanceof Problem && !error.retryable) throw error;
    console.error(`no server: ${error.message}`);
    await sleep(5);
  }
}
