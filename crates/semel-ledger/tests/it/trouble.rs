//! What the tests of every store ask: one claim, one holder, and that a store in trouble answers with an error, never "new".

use std::time::Duration;

use semel_ledger::store::{Claim, Claimed, Expired, Holder, Owner, Store};
use semel_ledger::{Consumer, Key, Scope, Step, StoreErrorKind};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn scope(key: &str) -> Scope {
    Scope { consumer: Consumer::new("billing").unwrap(), key: Key::new(key).unwrap(), step: Step::whole() }
}

pub(crate) fn claim(key: &str) -> Claim {
    Claim {
        scope: scope(key),
        owner: Owner::random(),
        fence: None,
        fingerprint: None,
        lease: MINUTE,
        expired: Expired::TakeOver { window: None },
        ttl: MINUTE,
    }
}

pub(crate) async fn granted(store: &dyn Store, key: &str) -> Holder {
    let claim = claim(key);
    let Claimed::Granted(grant) = store.claim(&claim).await.unwrap() else { panic!("{key} is not granted") };
    Holder { scope: claim.scope, owner: claim.owner, token: grant.token }
}

/// Everything that could make an effect happen, or count as happened, is an error of this kind.
pub(crate) async fn refuses(store: &dyn Store, holder: &Holder, kind: StoreErrorKind) {
    let errors = [
        store.claim(&claim("another")).await.unwrap_err(),
        store.complete(holder, "1", MINUTE).await.unwrap_err(),
        store.mark(&[scope("marked")], MINUTE).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.retryable());
    }
}
