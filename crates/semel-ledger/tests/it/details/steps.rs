//! Jobs of several steps.

use std::sync::{Arc, Mutex};

use semel_ledger::store::Store;
use semel_ledger::{Begun, Call, Error, Failure, Halt, Intent, Ledger, Memory, Steps, Verdict};

use super::{builder, call};

/// What happened, in order.
#[derive(Debug, Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// How the steps of an order come out.
#[derive(Debug, Clone, Copy, Default)]
struct Weather {
    charge: Option<Failure<&'static str>>,
    undo_hold: Option<&'static str>,
}

/// Reserves, charges, ships; gives up when the charge fails for certain.
async fn order<S: Store>(
    steps: Steps<S, String>,
    diary: Diary,
    weather: Weather,
) -> Result<String, Halt<String>> {
    let (noted, undoing) = (diary.clone(), diary.clone());
    let hold: String = steps
        .step("reserve")
        .undo(move |begun: Begun<String>| async move {
            undoing.note(format!("undo {}", begun.result.as_deref().unwrap_or("unknown")));
            weather.undo_hold.map_or(Ok(()), |error| Err(error.to_owned())?)
        })
        .run(|_| async move {
            noted.note("reserve");
            Ok("hold".to_owned())
        })
        .await?;
    let (noted, undoing) = (diary.clone(), diary.clone());
    let charge = |_: Intent| async move {
        noted.note("charge");
        match weather.charge {
            None => Ok("charge".to_owned()),
            Some(Failure::NotApplied(error)) => Err(Failure::NotApplied(error.to_owned())),
            Some(Failure::Unknown(error)) => Err(Failure::Unknown(error.to_owned())),
        }
    };
    let charged: Result<String, Halt<String>> = steps
        .step("charge")
        .undo(move |begun: Begun<String>| async move {
            undoing.note(format!("refund {}", begun.result.as_deref().unwrap_or("unknown")));
            Ok(())
        })
        .run(charge)
        .await;
    let charge = match charged {
        Err(Halt::Failed(Error::Effect(reason))) if reason != "retry" => return Err(Halt::give_up(reason)),
        other => other?,
    };
    let noted = diary.clone();
    let ship = |_| async move {
        noted.note("ship");
        Ok("parcel".to_owned())
    };
    let parcel: String = steps.step("ship").run_at_most_once(ship).await?;
    Ok(format!("{hold}, {charge}, {parcel}"))
}

struct Shop {
    ledger: Ledger<Memory>,
    diary: Diary,
}

impl Shop {
    fn open() -> Self {
        // No cache: what is known must be in the store.
        Self { ledger: builder(Memory::new()).cache_bytes(0).build().unwrap(), diary: Diary::default() }
    }

    async fn deliver(&self, call: &Call, weather: Weather) -> Result<Verdict<String>, Error<String>> {
        self.ledger.steps(call).run(|steps| order(steps, self.diary.clone(), weather)).await
    }
}

fn failing(charge: Failure<&'static str>) -> Weather {
    Weather { charge: Some(charge), ..Weather::default() }
}

#[tokio::test]
async fn a_job_goes_on_from_the_step_that_failed() {
    let shop = Shop::open();
    let failed = shop.deliver(&call(), failing(Failure::Unknown("retry"))).await;
    assert!(matches!(failed, Err(Error::Effect(error)) if error == "retry"));
    assert_eq!(shop.diary.take(), ["reserve", "charge"]);
    let done = shop.deliver(&call(), Weather::default()).await.unwrap();
    assert_eq!(done, Verdict::Applied("hold, charge, parcel".to_owned()));
    assert_eq!(shop.diary.take(), ["charge", "ship"]);
    let again = shop.deliver(&call(), Weather::default()).await.unwrap();
    assert_eq!(again, Verdict::Replayed("hold, charge, parcel".to_owned()));
    assert_eq!(shop.diary.take(), Vec::<String>::new());
}

#[tokio::test]
async fn a_job_that_is_given_up_undoes_what_it_did_and_is_over() {
    let shop = Shop::open();
    let weather = failing(Failure::NotApplied("declined"));
    for _ in 0..3 {
        let ended = shop.deliver(&call(), weather).await;
        assert!(matches!(ended, Err(Error::Compensated { reason }) if reason == "declined"));
    }
    assert_eq!(shop.diary.take(), ["reserve", "charge", "undo hold"]);
}

#[tokio::test]
async fn a_step_that_may_have_happened_is_undone_in_reverse_order() {
    let shop = Shop::open();
    let ended = shop.deliver(&call(), failing(Failure::Unknown("timed out"))).await;
    assert!(matches!(ended, Err(Error::Compensated { .. })), "{ended:?}");
    assert_eq!(shop.diary.take(), ["reserve", "charge", "refund unknown", "undo hold"]);
}

#[tokio::test]
async fn a_compensation_that_failed_goes_on_with_the_next_delivery_and_nothing_else_does() {
    let shop = Shop::open();
    let weather =
        Weather { undo_hold: Some("warehouse is closed"), ..failing(Failure::Unknown("timed out")) };
    let failed = shop.deliver(&call(), weather).await;
    assert!(matches!(failed, Err(Error::Effect(error)) if error == "warehouse is closed"));
    assert_eq!(shop.diary.take(), ["reserve", "charge", "refund unknown", "undo hold"]);
    // The card would be good again, but the job was given up.
    let ended = shop.deliver(&call(), Weather::default()).await;
    assert!(matches!(ended, Err(Error::Compensated { reason }) if reason == "timed out"));
    assert_eq!(shop.diary.take(), ["undo hold"]);
}

#[tokio::test]
async fn two_jobs_do_not_share_steps() {
    let shop = Shop::open();
    let other = Call::new("order-9483").unwrap();
    assert!(shop.deliver(&call(), Weather::default()).await.unwrap().is_applied());
    assert!(shop.deliver(&other, Weather::default()).await.unwrap().is_applied());
    assert_eq!(shop.diary.take(), ["reserve", "charge", "ship", "reserve", "charge", "ship"]);
}

#[tokio::test]
async fn a_step_has_a_proper_name() {
    let ledger = builder(Memory::new()).build().unwrap();
    let call = call();
    let job = |steps: Steps<Memory, String>| async move {
        steps.step("a/b").run(|_| async { Ok::<u64, Failure<String>>(1) }).await
    };
    let error = ledger.steps(&call).run(job).await.unwrap_err();
    assert!(matches!(error, Error::Key(_)), "{error}");
}
