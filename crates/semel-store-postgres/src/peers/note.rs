//! What nodes tell each other, as the payload of a notification.
//!
//! It is JSON, because other versions and the SQL functions write it too: a member that is absent says nothing, one that is
//! not known is passed over.

use std::collections::{BTreeMap, BTreeSet};

use semel_core::name::QueueName;
use semel_store::shared::Wakes;
use serde::{Deserialize, Serialize};

use super::list::node_id;

/// PostgreSQL takes payloads of less than 8,000 bytes. The rest is room for what is not a name.
const NAMES_MAX: usize = 7_000;

/// What a name takes besides its letters: quotes, a colon, a count, a comma.
const BESIDES: usize = 16;

/// Most notes for one telling. Whoever has more to tell says: look at everything.
const NOTES_MAX: usize = 4;

/// A payload.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Note {
    /// The node that wrote it; absent if it was not a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<i32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    ready: BTreeMap<QueueName, u32>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    changed: BTreeSet<QueueName>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    gone: BTreeSet<QueueName>,
    #[serde(skip_serializing_if = "is_false")]
    api_keys: bool,
    #[serde(skip_serializing_if = "is_false")]
    tasks: bool,
    /// Whether the node that wrote it commits often.
    #[serde(skip_serializing_if = "is_false")]
    busy: bool,
    #[serde(skip_serializing_if = "is_false")]
    everything: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Who wrote a payload, and what it says. One that cannot be read may say anything, so everything is to be looked at.
pub(super) fn read(payload: &str) -> (Option<i32>, Wakes) {
    match serde_json::from_str(payload) {
        Ok(Note { from, ready, changed, gone, api_keys, tasks, busy, everything }) => {
            let busy = from.filter(|_| busy).map(node_id).into_iter().collect();
            (from, Wakes { ready, changed, gone, api_keys, tasks, busy, everything })
        }
        Err(_) => (None, Wakes { everything: true, ..Wakes::default() }),
    }
}

/// A payload that says only who wrote it: this node is there, and hears itself.
pub(super) fn own(node: i32) -> String {
    text(&Note { from: Some(node), ..Note::default() })
}

/// Writes what is to be told, in as many payloads as it takes.
pub(super) fn write(node: i32, wakes: &Wakes) -> Vec<String> {
    let mut desk = Desk::new(node);
    desk.note.api_keys = wakes.api_keys;
    desk.note.tasks = wakes.tasks;
    desk.note.busy = !wakes.busy.is_empty();
    desk.note.everything = wakes.everything;
    for queue in &wakes.gone {
        desk.room_for(queue).gone.insert(queue.clone());
    }
    for queue in &wakes.changed {
        desk.room_for(queue).changed.insert(queue.clone());
    }
    for (queue, jobs) in &wakes.ready {
        desk.room_for(queue).ready.insert(queue.clone(), *jobs);
    }
    desk.finish(wakes)
}

/// Notes that are being written.
struct Desk {
    node: i32,
    note: Note,
    filled: usize,
    done: Vec<Note>,
}

impl Desk {
    fn new(node: i32) -> Self {
        Self { node, note: Note { from: Some(node), ..Note::default() }, filled: 0, done: Vec::new() }
    }

    /// The note that has room for a name.
    fn room_for(&mut self, queue: &QueueName) -> &mut Note {
        let size = queue.as_str().len() + BESIDES;
        if self.filled + size > NAMES_MAX {
            let fresh = Note { from: Some(self.node), ..Note::default() };
            self.done.push(std::mem::replace(&mut self.note, fresh));
            self.filled = 0;
        }
        self.filled += size;
        &mut self.note
    }

    fn finish(mut self, wakes: &Wakes) -> Vec<String> {
        self.done.push(self.note);
        if self.done.len() <= NOTES_MAX {
            return self.done.iter().map(text).collect();
        }
        let (from, busy) = (Some(self.node), !wakes.busy.is_empty());
        let Wakes { api_keys, tasks, .. } = *wakes;
        vec![text(&Note { from, api_keys, tasks, busy, everything: true, ..Note::default() })]
    }
}

fn text(note: &Note) -> String {
    serde_json::to_string(note).expect("a note is plain data")
}

#[cfg(test)]
mod tests {
    use semel_store::shared::NodeId;

    use super::*;

    fn queue(name: impl AsRef<str>) -> QueueName {
        QueueName::try_from(name.as_ref()).unwrap()
    }

    #[test]
    fn what_is_told_is_heard() {
        let wakes = Wakes {
            ready: [(queue("a"), 3), (queue("b"), 1)].into(),
            changed: [queue("c")].into(),
            gone: [queue("d")].into(),
            api_keys: true,
            tasks: true,
            busy: [NodeId(7)].into(),
            everything: false,
        };
        let notes = write(7, &wakes);
        assert_eq!(notes.len(), 1);
        assert_eq!(read(&notes[0]), (Some(7), wakes));
        assert_eq!(read(&own(7)), (Some(7), Wakes::default()));
    }

    #[test]
    fn other_writers_are_understood() {
        let ready = Wakes { ready: [(queue("mail"), 1)].into(), ..Wakes::default() };
        assert_eq!(read(r#"{"ready":{"mail":1}}"#), (None, ready));
        assert_eq!(read(r#"{"from":3,"of a later version":[1]}"#), (Some(3), Wakes::default()));
        for strange in ["", "hello", r#"{"ready":{"no queue":1}}"#] {
            assert!(read(strange).1.everything, "{strange}");
        }
    }

    #[test]
    fn much_takes_several_notes_and_too_much_one() {
        let many = |count: usize| {
            let name = |n| queue(format!("{:x<200}{n}", ""));
            Wakes {
                ready: (0..count).map(|n| (name(n), u32::MAX)).collect(),
                api_keys: true,
                ..Wakes::default()
            }
        };
        let notes = write(7, &many(90));
        assert!((2..=NOTES_MAX).contains(&notes.len()), "{}", notes.len());
        assert!(notes.iter().all(|note| note.len() < 8_000));
        let mut heard = BTreeMap::new();
        notes.iter().for_each(|note| heard.extend(read(note).1.ready));
        assert_eq!(heard, many(90).ready);
        assert_eq!(notes.iter().filter(|note| read(note).1.api_keys).count(), 1);

        let all = write(7, &many(9_000));
        let expected = Wakes { api_keys: true, everything: true, ..Wakes::default() };
        assert_eq!(all.iter().map(|note| read(note)).collect::<Vec<_>>(), [(Some(7), expected)]);
    }
}
