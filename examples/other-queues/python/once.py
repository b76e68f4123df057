"""An effect that happens once, in the application's own PostgreSQL transaction."""

import json

BEGIN = """
    SELECT coalesce(entry->>'verdict', 'new'), entry->>'result'
    FROM CAST(semel_ledger.begin(%s, %s, '', NULL, NULL) AS json) AS entry
"""
RECORD = "CALL semel_ledger.record(%s, %s, '', NULL, NULL, %s, 259200000)"


class Busy(Exception):
    """Another delivery is at it: have this one delivered again, without counting it."""


def once(cursor, consumer, key, effect):
    """Runs effect(cursor) unless it has been done under this key.

    Returns "applied" or "replayed", and the first run's result. The caller commits.
    """
    cursor.execute(BEGIN, (consumer, key))
    verdict, result = cursor.fetchone()
    if verdict == "new":
        value = effect(cursor)
        cursor.execute(RECORD, (consumer, key, json.dumps(value)))
        return "applied", value
    if verdict == "done":
        return "replayed", json.loads(result)
    if verdict == "busy":
        raise Busy(key)
    raise RuntimeError(f"{key} is {verdict}: a person has to look")
