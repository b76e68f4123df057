//! The pages of `docs/ledger`, whose examples are tested with those of the code.

macro_rules! pages {
    ($($name:ident $file:literal,)*) => {$(
        #[doc = include_str!(concat!("../../../docs/ledger/", $file))]
        struct $name;
    )*};
}

pages! {
    Choose "README.md",
    Transactional "transactional.md",
    Intents "intent.md",
    AtMostOnce "at-most-once.md",
    SeenSet "seen-set.md",
    Stepwise "steps.md",
    TtlAndPruning "ttl-and-pruning.md",
    OnRedis "redis.md",
    OtherQueues "other-queues.md",
    Traps "traps.md",
}
