"""A worker for the tests: charges an order once, and tells it. With `hold` it waits before it commits."""

import sys

import psycopg2
from once import Busy, once

url, key, *hold = sys.argv[1:]
connection = psycopg2.connect(url)


def say(word):
    print(f"twin: {word}", flush=True)


def charge(cursor):
    cursor.execute("INSERT INTO charge (key) VALUES (%s) RETURNING id", (key,))
    (charge_id,) = cursor.fetchone()
    if hold:
        say("charged")
        sys.stdin.readline()
    return {"charge": charge_id}


try:
    # The block commits, or rolls back.
    with connection, connection.cursor() as cursor:
        verdict, result = once(cursor, "billing", key, charge)
    say(f"{verdict} {result['charge']}")
except Busy:
    say("busy")
