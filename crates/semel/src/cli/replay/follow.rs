//! Following a task to its end.

use std::time::Duration;

use semel_client::http::{Call, Reply};
use tokio::signal::unix::{SignalKind, signal};

use super::super::{note, print, print_reply};
use super::task::Replay;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::remote::{Remote, is_there_somebody, says_yes};
use crate::text::printable;

/// How often a task is looked at: the bar moves, and a server has other things to do.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Why following ended.
enum Ended {
    Done(Reply, Replay),
    Interrupted(Replay),
}

/// Follows a task to its end, and shows what it came to. `total` is how many dead letters there are to look at. There is
/// none if somebody has seen enough before that.
pub(super) async fn to_its_end(
    remote: &Remote,
    id: &str,
    total: Option<u64>,
    json: bool,
) -> Result<Option<Replay>, Failure> {
    let mut progress = Progress::new();
    let ended = watch(remote, id, total, &mut progress).await;
    progress.finish();
    match ended? {
        Ended::Done(reply, task) => {
            if json {
                print_reply(&reply)?;
            } else {
                print(&task.told())?;
            }
            Ok(Some(task))
        }
        Ended::Interrupted(task) => {
            interrupted(remote, &task).await?;
            Ok(None)
        }
    }
}

async fn watch(
    remote: &Remote,
    id: &str,
    total: Option<u64>,
    progress: &mut Progress,
) -> Result<Ended, Failure> {
    let call = Call::get(&["v1", "replays", id]);
    // Before anything is shown: whoever sees it may press Ctrl-C.
    let mut interrupts = signal(SignalKind::interrupt()).map_err(Failure::io("listen for signals"))?;
    let mut begun = false;
    loop {
        let reply = remote.call(&call).await?;
        let task: Replay = remote.read(&reply)?;
        if !task.is_running() {
            return Ok(Ended::Done(reply, task));
        }
        if !begun {
            let verb = if task.dry_run { "counting" } else { "replaying" };
            progress.start(format!("{verb} {}", printable(&task.queue)), total.unwrap_or(0));
            begun = true;
        }
        progress.set(task.counts.looked_at);
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            _ = interrupts.recv() => return Ok(Ended::Interrupted(task)),
        }
    }
}

/// Ctrl-C: the task is the server's, so ending this command does not end it.
async fn interrupted(remote: &Remote, task: &Replay) -> Result<(), Failure> {
    let id = printable(&task.id);
    if is_there_somebody() && says_yes(&format!("\nCall the replay {id} off?"))? {
        let task: Replay = remote.ask(&Call::delete(&["v1", "replays", &task.id])).await?;
        print(&task.told())?;
    } else {
        note(&format!(
            "the replay goes on: `semel replay status {id} --follow` shows how far it is, `semel replay cancel {id}` ends it"
        ));
    }
    Ok(())
}
