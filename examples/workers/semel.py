"""Calls to Semel, with Python's standard library and nothing else."""

import json
import os
import random
import time
import urllib.error
import urllib.request

SERVER = os.environ.get("SEMEL_SERVER", "http://127.0.0.1:7477")
API_KEY = os.environ.get("SEMEL_API_KEY", "")


class Problem(Exception):
    """The server's clear no. `code` is stable, and each has a page: /errors/{code}."""

    def __init__(self, body):
        super().__init__(body.get("detail"))
        self.code, self.retryable = body.get("code"), body.get("retryable", False)


def once(path, body, timeout):
    request = urllib.request.Request(f"{SERVER}/v1/{path}", json.dumps(body).encode(), method="POST")
    request.add_header("Authorization", f"Bearer {API_KEY}")
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.headers.get_content_type() == "application/problem+json":
            raise Problem(json.load(error)) from None
        raise


def call(path, body, timeout=60, tries=8):
    """Tries again what may work later: publishes have their key and settles their lease, so a repetition is harmless."""
    for n in range(tries):
        try:
            return once(path, body, timeout)
        except Problem as problem:
            if not problem.retryable or n + 1 == tries:
                raise
        except OSError:
            if n + 1 == tries:
                raise
        time.sleep(random.uniform(0, min(5, 0.1 * 2**n)))
