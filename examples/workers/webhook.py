"""A worker that is called: checks that a delivery is from its queue, works, and answers what became of it."""

import base64
import hashlib
import hmac
import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Two while a secret is rotated, separated by a blank.
SECRETS = os.environ["WEBHOOK_SECRETS"].split()
TOLERANCE = 5 * 60


def genuine(headers, body):
    """Standard Webhooks: one of the signatures is the HMAC of id, time and body, and the time is now."""
    name, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent.isdigit() or abs(time.time() - int(sent)) > TOLERANCE:
        return False
    content = f"{name}.{sent}.".encode() + body
    for secret in SECRETS:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        expected = "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
        for signature in headers.get("webhook-signature", "").split():
            if hmac.compare_digest(signature, expected):
                return True
    return False


def work(job):
    print(f"attempt {job['attempt']}: sending the mail of order {job['payload']['order']}", flush=True)
    return {"sent": True}


class Webhook(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not genuine(self.headers, body):
            return self.answer(401, {"error": "the signature is wrong"})
        try:
            # What the effect became goes into a header. A service that takes an idempotency key gets that of the job.
            self.answer(200, work(json.loads(body)), {"Semel-Effect": "applied"})
        except Exception as error:
            # 500: try again. 429 or 503, with Retry-After: not now. 410: never.
            self.answer(500, {"error": str(error)})

    def answer(self, status, body, headers=()):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


port = int(os.environ.get("PORT", 8080))
with ThreadingHTTPServer(("127.0.0.1", port), Webhook) as server:
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
