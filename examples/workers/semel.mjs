// Calls to Semel, with what Node brings along (18 or later) and nothing else.

const server = process.env.SEMEL_SERVER ?? 'http://127.0.0.1:7477';

// The server's clear no. `code` is stable, and each has a page: /errors/{code}.
export class Problem extends Error {
  constructor({ detail, code, retryable }) {
    super(detail);
    Object.assign(this, { code, retryable });
  }
}

async function once(path, body) {
  const answer = await fetch(`${server}/v1/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${process.env.SEMEL_API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  });
  const said = await answer.json();
  if (!answer.ok) throw new Problem(said);
  return said;
}

// Tries again what may work later: publishes have their key and settles their lease, so a repetition is harmless.
export async function call(path, body, tries = 8) {
  for (let n = 1; ; n++) {
    try {
      return await once(path, body);
    } catch (error) {
      if (n === tries || (error instanceof Problem && !error.retryable)) throw error;
      await new Promise((wake) => setTimeout(wake, Math.random() * Math.min(5000, 100 * 2 ** n)));
    }
  }
}
