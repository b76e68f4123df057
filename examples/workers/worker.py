"""A worker that pulls: leases a job, keeps the lease alive while it works, settles it. Its effect, a row, happens once."""

import os
import signal
import sqlite3
import sys
import threading
import time

import semel

QUEUE = sys.argv[1] if len(sys.argv) > 1 else "orders"
LEASE_SECONDS = float(os.environ.get("LEASE_SECONDS", 30))
WORK_SECONDS = float(os.environ.get("WORK_SECONDS", 0))

busy, stop = threading.Event(), threading.Event()


def finish(*_):
    """A signal lets the job at hand end first. One that is just being handed out is delivered again when its lease ends."""
    stop.set()
    if not busy.is_set():
        sys.exit()


for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, finish)

database = sqlite3.connect(os.environ.get("DATABASE", "effects.db"))
database.execute("CREATE TABLE IF NOT EXISTS charge (key TEXT PRIMARY KEY, customer TEXT)")


class Busy(Exception):
    """Not now: raise Busy(seconds), and no attempt is burned."""


class Never(Exception):
    """It can never work: to the dead letters."""


def work(job):
    """Returns what became of the effect. Key and effect are one transaction: a job that comes again finds its key."""
    time.sleep(WORK_SECONDS)
    key, order = job["idempotencyKey"] or job["id"], job["payload"]["order"]
    with database:
        row = (key, f"customer of order {order}")
        new = database.execute("INSERT INTO charge VALUES (?, ?) ON CONFLICT DO NOTHING", row).rowcount
    outcome = "applied" if new else "replayed"
    print(f"order {order}: {outcome}", flush=True)
    return {"result": {"order": order}, "effect": {"outcome": outcome, "key": key}}


def heartbeat(job, done):
    # A third of the lease, so that two beats in a row may be lost.
    while not done.wait(LEASE_SECONDS / 3):
        try:
            semel.call(f"jobs/{job['id']}/extend", {"lease": job["lease"], "seconds": LEASE_SECONDS}, tries=1)
        except (semel.Problem, OSError) as error:
            print(f"{job['id']}: no heartbeat: {error}", file=sys.stderr)


def verdict(job):
    try:
        return "ack", work(job)
    except Busy as busy:
        return "defer", {"retryAfter": busy.args[0]}
    except Never as error:
        return "nack", {"retryable": False, "reason": str(error)[:500]}
    except Exception as error:
        return "nack", {"reason": f"{type(error).__name__}: {error}"[:500]}


def handle(job):
    done = threading.Event()
    beating = threading.Thread(target=heartbeat, args=(job, done))
    beating.start()
    action, body = verdict(job)
    done.set()
    beating.join()
    try:
        semel.call(f"jobs/{job['id']}/{action}", {"lease": job["lease"], **body})
    except semel.Problem as problem:
        # stale_lease: another worker has the job by now, and it is that worker's to settle.
        print(f"{job['id']}: not settled: {problem.code}", file=sys.stderr)


while not stop.is_set():
    try:
        leased = semel.call(f"queues/{QUEUE}/lease", {"max": 1, "wait": 10, "leaseSeconds": LEASE_SECONDS})
    except OSError as error:
        print(f"no server: {error}", file=sys.stderr)
        stop.wait(5)
        continue
    for job in leased["jobs"]:
        busy.set()
        handle(job)
        busy.clear()
