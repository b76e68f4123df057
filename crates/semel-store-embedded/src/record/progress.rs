//! The record of what has become of a job: live, done or dead, the same format.

use bytes::Bytes;
use semel_core::ids::{JobId, Token};
use semel_core::job::{Attempt, AttemptStatus, LastSettle, Progress};
use semel_core::lifecycle::State;
use semel_core::outcome::{Effect, Receipt};
use semel_core::payload::Payload;
use semel_core::settle::Verb;
use semel_core::time::{Millis, Timestamp};

use super::wire::{Damage, Reader, begin, put_bytes, put_time, put_varint, seal};

const FINISHED: u8 = 1;
const SETTLED: u8 = 2;
const RESULT: u8 = 4;
const EFFECT: u8 = 8;
const RELEASED: u8 = 16;
/// Records of the first stores never have it, though their jobs may have been replayed: it was not kept then.
const REPLAYED: u8 = 32;

const ERROR: u8 = 1;
const STATUS_CODE: u8 = 2;
const DURATION: u8 = 4;
const ATTEMPT_EFFECT: u8 = 8;

/// Writes a job's progress.
pub(crate) fn encode_progress(out: &mut Vec<u8>, id: JobId, progress: &Progress) {
    begin(out);
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    out.push(
        flag(progress.finished_at.is_some(), FINISHED)
            | flag(progress.settled.is_some(), SETTLED)
            | flag(progress.result.is_some(), RESULT)
            | flag(progress.effect.is_some(), EFFECT)
            | flag(progress.released.is_some(), RELEASED)
            | flag(progress.replayed_at.is_some(), REPLAYED),
    );
    out.push(state_byte(progress.state));
    put_time(out, progress.due, id.time());
    for count in [progress.attempts, progress.deferrals, progress.replays, progress.history_dropped] {
        put_varint(out, u64::from(count));
    }
    if let Some(at) = progress.finished_at {
        put_time(out, at, progress.due);
    }
    if let Some(last) = progress.settled {
        put_varint(out, last.token.raw());
        out.push(verb_byte(last.verb));
    }
    if let Some(result) = &progress.result {
        put_bytes(out, result.bytes());
    }
    if let Some(effect) = &progress.effect {
        put_receipt(out, effect);
    }
    if let Some(reason) = &progress.released {
        put_bytes(out, reason.as_bytes());
    }
    if let Some(at) = progress.replayed_at {
        put_time(out, at, progress.due);
    }
    put_varint(out, progress.history.len() as u64);
    let mut near = progress.finished_at.unwrap_or(progress.due);
    for attempt in progress.history.iter().rev() {
        put_attempt(out, attempt, near);
        near = attempt.at;
    }
    seal(out, id.raw());
}

fn put_attempt(out: &mut Vec<u8>, attempt: &Attempt, near: Timestamp) {
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    out.push(
        flag(attempt.error.is_some(), ERROR)
            | flag(attempt.status_code.is_some(), STATUS_CODE)
            | flag(attempt.duration.is_some(), DURATION)
            | flag(attempt.effect.is_some(), ATTEMPT_EFFECT),
    );
    out.push(status_byte(attempt.status));
    put_varint(out, u64::from(attempt.number));
    put_time(out, attempt.at, near);
    if let Some(error) = &attempt.error {
        put_bytes(out, error.as_bytes());
    }
    if let Some(code) = attempt.status_code {
        put_varint(out, u64::from(code));
    }
    if let Some(duration) = attempt.duration {
        put_varint(out, duration.millis());
    }
    if let Some(effect) = &attempt.effect {
        put_receipt(out, effect);
    }
}

fn put_receipt(out: &mut Vec<u8>, receipt: &Receipt) {
    let outcome = match receipt.outcome {
        Effect::Applied => 0,
        Effect::Replayed => 1,
        Effect::None => 2,
    };
    out.push(outcome | if receipt.key.is_some() { 0x80 } else { 0 });
    if let Some(key) = &receipt.key {
        put_bytes(out, key.as_bytes());
    }
}

/// Reads a job's progress.
pub(crate) fn decode_progress(record: &[u8], id: JobId) -> Result<Progress, Damage> {
    let mut r = Reader::open(record, id.raw())?;
    let flags = r.byte()?;
    let state = read_state(r.byte()?)?;
    let due = r.time(id.time())?;
    let (attempts, deferrals, replays, history_dropped) = (r.small()?, r.small()?, r.small()?, r.small()?);
    let finished_at = if flags & FINISHED != 0 { Some(r.time(due)?) } else { None };
    let settled = if flags & SETTLED != 0 {
        Some(LastSettle { token: Token::from_raw(r.varint()?), verb: read_verb(r.byte()?)? })
    } else {
        None
    };
    let result = if flags & RESULT != 0 {
        Some(Payload::from_parsed(Bytes::copy_from_slice(r.bytes()?)))
    } else {
        None
    };
    let effect = if flags & EFFECT != 0 { Some(read_receipt(&mut r)?) } else { None };
    let released = if flags & RELEASED != 0 { Some(r.text()?.to_owned()) } else { None };
    let replayed_at = if flags & REPLAYED != 0 { Some(r.time(due)?) } else { None };
    let history = read_history(&mut r, finished_at.unwrap_or(due))?;
    Ok(Progress {
        state,
        due,
        attempts,
        deferrals,
        replays,
        replayed_at,
        history,
        history_dropped,
        result,
        effect,
        finished_at,
        settled,
        released,
    })
}

fn read_history(r: &mut Reader<'_>, mut near: Timestamp) -> Result<Vec<Attempt>, Damage> {
    let entries = r.small()?;
    let mut history = Vec::new();
    for _ in 0..entries {
        let attempt = read_attempt(r, near)?;
        near = attempt.at;
        history.push(attempt);
    }
    history.reverse();
    Ok(history)
}

fn read_attempt(r: &mut Reader<'_>, near: Timestamp) -> Result<Attempt, Damage> {
    let flags = r.byte()?;
    Ok(Attempt {
        status: read_status(r.byte()?)?,
        number: r.small()?,
        at: r.time(near)?,
        error: if flags & ERROR != 0 { Some(r.text()?.to_owned()) } else { None },
        status_code: if flags & STATUS_CODE != 0 {
            Some(u16::try_from(r.small()?).map_err(|_| Damage::Field("status code"))?)
        } else {
            None
        },
        duration: if flags & DURATION != 0 { Some(Millis::from_millis(r.varint()?)) } else { None },
        effect: if flags & ATTEMPT_EFFECT != 0 { Some(read_receipt(r)?) } else { None },
    })
}

fn read_receipt(r: &mut Reader<'_>) -> Result<Receipt, Damage> {
    let byte = r.byte()?;
    let outcome = match byte & 0x7f {
        0 => Effect::Applied,
        1 => Effect::Replayed,
        2 => Effect::None,
        _ => return Err(Damage::Field("effect")),
    };
    let key = if byte & 0x80 != 0 { Some(r.text()?.to_owned()) } else { None };
    Ok(Receipt { outcome, key })
}

fn state_byte(state: State) -> u8 {
    match state {
        State::Pending => 0,
        State::Processing => 1,
        State::AwaitingAck => 2,
        State::Completed => 3,
        State::Dead => 4,
        State::Cancelled => 5,
    }
}

fn read_state(byte: u8) -> Result<State, Damage> {
    State::ALL.into_iter().find(|&s| state_byte(s) == byte).ok_or(Damage::Field("state"))
}

fn verb_byte(verb: Verb) -> u8 {
    match verb {
        Verb::Ack => 0,
        Verb::Nack => 1,
        Verb::Defer => 2,
        Verb::Receive => 3,
        Verb::Expire => 4,
    }
}

fn read_verb(byte: u8) -> Result<Verb, Damage> {
    const ALL: [Verb; 5] = [Verb::Ack, Verb::Nack, Verb::Defer, Verb::Receive, Verb::Expire];
    ALL.into_iter().find(|&v| verb_byte(v) == byte).ok_or(Damage::Field("verb"))
}

fn status_byte(status: AttemptStatus) -> u8 {
    match status {
        AttemptStatus::Success => 0,
        AttemptStatus::Failed => 1,
        AttemptStatus::Nacked => 2,
        AttemptStatus::Deferred => 3,
        AttemptStatus::Expired => 4,
    }
}

fn read_status(byte: u8) -> Result<AttemptStatus, Damage> {
    use AttemptStatus::{Deferred, Expired, Failed, Nacked, Success};
    [Success, Failed, Nacked, Deferred, Expired]
        .into_iter()
        .find(|&s| status_byte(s) == byte)
        .ok_or(Damage::Field("attempt status"))
}
