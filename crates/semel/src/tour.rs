//! `semel tour`: the promises, kept in front of the reader's eyes. Every call is made on a real store and every answer
//! shown is the one it gave; nothing is written down beforehand but the questions.

mod acts;
mod crash;
mod stage;
mod telling;

use std::path::Path;

use semel_store_embedded::Options;
use serde::Serialize;

pub(crate) use self::crash::be_publisher;
pub(crate) use self::telling::Voice;

use self::stage::Stage;
use self::telling::{Act, Telling};
use crate::failure::Failure;

/// What the tour showed.
#[derive(Debug, Serialize)]
pub(crate) struct Tour {
    /// Its acts, in order.
    pub acts: Vec<Act>,
    /// Whether every promise held.
    pub held: bool,
}

/// Walks through the promises in a directory of its own, which is gone afterwards.
pub(crate) fn run(voice: Voice) -> Result<Tour, Failure> {
    let scratch = tempfile::Builder::new()
        .prefix("semel-tour-")
        .tempdir()
        .map_err(Failure::io("make a temporary directory"))?;
    let mut telling = Telling::new(voice);
    telling.prologue(scratch.path())?;
    play(&mut telling, &scratch.path().join("store"), &Options::default())?;
    crash::kill_in_mid_publish(&mut telling, &scratch.path().join("killed"))?;
    telling.epilogue()?;
    let acts = telling.into_acts();
    Ok(Tour { held: acts.iter().all(Act::held), acts })
}

/// The acts without a crash.
fn play(telling: &mut Telling, dir: &Path, options: &Options) -> Result<(), Failure> {
    let stage = Stage::open(dir, options)?;
    acts::publish_twice(telling, &stage)?;
    acts::collide(telling, &stage)?;
    acts::lose_a_lease(telling, &stage)?;
    acts::fail_until_dead(telling, &stage)?;
    acts::replay(telling, &stage)?;
    stage.close()
}

#[cfg(test)]
mod tests {
    use semel_store_embedded::Sabotage;

    use super::*;

    /// Which acts a store kept its promises in, up to the end or to where it failed altogether.
    fn held_acts(sabotage: Option<Sabotage>) -> Vec<bool> {
        let dir = tempfile::tempdir().unwrap();
        let mut telling = Telling::new(Voice::Silent);
        // A broken store may break so badly that an act cannot go on; what it promised before that still counts.
        let played = play(&mut telling, dir.path(), &Options { sabotage, ..Options::default() });
        let mut held: Vec<_> = telling.into_acts().iter().map(Act::held).collect();
        if played.is_err() {
            held.push(false);
        }
        held
    }

    #[test]
    fn a_sound_store_keeps_every_promise() {
        assert_eq!(held_acts(None), [true; 5]);
    }

    #[test]
    fn a_store_that_forgets_keys_is_found_out() {
        assert!(!held_acts(Some(Sabotage::NoDedup))[0]);
    }

    #[test]
    fn a_store_that_takes_any_token_is_found_out() {
        assert!(!held_acts(Some(Sabotage::NoFencing))[2]);
    }
}
