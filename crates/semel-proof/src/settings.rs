//! What the environment says about how long to go on: `make soak` asks for more of the same.

/// A number from the environment, or what `make test` does.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name} must be a number, got {text:?}"))
    })
}

/// The seed of this run: SEMEL_SEED to repeat a run that printed its own, else one that differs from run to run.
pub fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    number("SEMEL_SEED", u64::from(now.subsec_nanos()))
}

/// Whether this is the long form.
pub fn is_soak() -> bool {
    std::env::var_os("SEMEL_SOAK").is_some()
}
