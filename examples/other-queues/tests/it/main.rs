//! Each queue delivers a job again whose worker was killed after the effect and before the acknowledgement. The effect
//! happens once.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

mod other_languages;
mod process;
mod rabbitmq;
mod redis_list;
mod visibility;

use semel_ledger::handler::{Disposition, Receipt};

const ORDER: &[u8] = br#"{"order": "9482", "cents": 1000}"#;

fn receipt(disposition: &Disposition) -> Receipt {
    match disposition {
        Disposition::Ack { receipt, .. } => *receipt,
        other => panic!("it was not acknowledged: {other:?}"),
    }
}
