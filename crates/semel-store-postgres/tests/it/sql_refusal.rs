//! What the SQL functions refuse, as the domain says it.

use semel_core::name::QueueName;
use semel_core::refusal::Refusal;
use semel_core::violation::Violations;
use serde_json::Value;
use tokio_postgres::Error;

/// The detail of a refusal: JSON, with the stable code and what else there is to know.
pub(crate) fn details(error: &Error) -> Value {
    let error = error.as_db_error().unwrap_or_else(|| panic!("{error}"));
    let known = error.code().code().starts_with("SM");
    assert!(
        known && error.hint().is_some(),
        "a refusal has a state of its own and says what to do next: {error:?}"
    );
    serde_json::from_str(error.detail().unwrap()).unwrap()
}

/// The refusal behind an error. Its words must be those of the domain.
pub(crate) fn refusal(error: &Error) -> Refusal {
    let details = details(error);
    let text =
        |member: &str| details[member].as_str().unwrap_or_else(|| panic!("{member} in {details}")).to_owned();
    let number = |member: &str| details[member].as_u64().unwrap_or_else(|| panic!("{member} in {details}"));
    let queue = || QueueName::try_from(text("queue").as_str()).unwrap();
    let job = || text("job").parse().unwrap();
    let refusal = match text("code").as_str() {
        "queue_not_found" => Refusal::QueueNotFound(queue()),
        "key_required" => Refusal::KeyRequired(queue()),
        "key_pattern" => Refusal::KeyPattern { pattern: text("pattern") },
        "payload_too_large" => Refusal::PayloadTooLarge {
            size: usize::try_from(number("size")).unwrap(),
            limit: u32::try_from(number("limit")).unwrap(),
        },
        "key_collision" => Refusal::KeyCollision { id: job(), pointers: pointers(&details) },
        "job_not_found" => Refusal::JobNotFound(job()),
        "stale_lease" => Refusal::StaleLease(job()),
        "invalid" => Refusal::Invalid(violations(&details)),
        other => panic!("{other} is not a refusal of the domain: {error:?}"),
    };
    assert_eq!(refusal.to_string(), error.as_db_error().unwrap().message());
    refusal
}

fn pointers(details: &Value) -> Vec<String> {
    let pointers = details["pointers"].as_array().unwrap();
    pointers.iter().map(|pointer| pointer.as_str().unwrap().to_owned()).collect()
}

fn violations(details: &Value) -> Violations {
    let mut all = Violations::default();
    for violation in details["violations"].as_array().unwrap() {
        all.add(violation["field"].as_str().unwrap(), violation["problem"].as_str().unwrap());
    }
    all
}
