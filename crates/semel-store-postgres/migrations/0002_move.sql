-- How far a move of another store into this one has come (`semel move`). At most one row. As long as it says that the move
-- is not finished no node joins, and all queues count as deleted.
CREATE TABLE semel.move (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- Where the other store is, in words for people.
    source      text NOT NULL,
    -- Which store it is, and which state of it: a move goes on only from the same state of the same store.
    store       text NOT NULL,
    state       text NOT NULL,
    -- Its jobs up to this id are through. It moves in the transaction that brings them.
    place       bigint NOT NULL,
    began_at    timestamptz NOT NULL DEFAULT now(),
    -- When everything was through and compared.
    finished_at timestamptz
);
