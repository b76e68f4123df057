// A worker that is called: checks that a delivery is from its queue, works, and answers what became of it.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const secrets = process.env.WEBHOOK_SECRETS.split(' '); // Two while a secret is rotated.
const tolerance = 5 * 60;

// Standard Webhooks: one of the signatures is the HMAC of id, time and body, and the time is now.
function genuine(headers, body) {
  const sent = Number(headers['webhook-timestamp']);
  if (!(Math.abs(Date.now() / 1000 - sent) <= tolerance)) return false;
  const content = Buffer.concat([Buffer.from(`${headers['webhook-id']}.${headers['webhook-timestamp']}.`), body]);
  const signatures = (headers['webhook-signature'] ?? '').split(' ').map((text) => Buffer.from(text));
  return secrets.some((secret) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
    const expected = Buffer.from(`v1,${createHmac('sha256', key).update(content).digest('base64')}`);
    return signatures.some((one) => one.length === expected.length && timingSafeEqual(one, expected));
  });
}

async function work(job) {
  console.log(`attempt ${job.attempt}: sending the mail of order ${job.payload.order}`);
  return { sent: true };
}

async function answer(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  if (!genuine(request.headers, body)) return [401, { error: 'the signature is wrong' }];
  try {
    // What the effect became goes into a header. A service that takes an idempotency key gets that of the job.
    return [200, await work(JSON.parse(body)), { 'semel-effect': 'applied' }];
  } catch (error) {
    return [500, { error: String(error) }]; // Try again. 429 or 503, with Retry-After: not now. 410: never.
  }
}

const server = createServer(async (request, response) => {
  const [status, body, headers] = await answer(request);
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
});
server.listen(Number(process.env.PORT ?? 8080), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
