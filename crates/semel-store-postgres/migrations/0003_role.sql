-- What one node does for all: ending leases that ran out, pruning, schedules. Whoever holds a role keeps it until the time in
-- its row, by the database's clock, and says so again before that.
--
-- A row and not an advisory lock: a lock that lasts longer than a transaction does not work through a pooler that gives every
-- transaction another connection, and a node that the network cut off would hold it for as long as TCP likes.
CREATE TABLE semel.role (
    name  text COLLATE "C" PRIMARY KEY,
    node  integer NOT NULL,
    until bigint NOT NULL
) WITH (fillfactor = 50);

-- Whether the leases of a node that died have been taken back.
ALTER TABLE semel.node ADD COLUMN lost boolean NOT NULL DEFAULT false;
