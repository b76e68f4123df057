//! The text form of an entry: fields parted by spaces, numbers in hexadecimal, one entry a line.
//!
//! ```text
//! Q orders 3 36ee80 36ee80          a queue: attempt cap, key window, retention
//! > 1f 199c0 P orders k42 9ab3 0    invoke number 1f at 199c0: publish under k42
//! + 1f 199c2 P 5e01 199c1 0 1       it was answered: job 5e01
//! - 20 stale_lease                  number 20 was refused
//! ? 21 unknown                      nobody knows about number 21
//! R 199f0                           the process was gone by 199f0
//! ```

use std::fmt::{self, Write};
use std::str::FromStr;

use semel_core::ids::{JobId, Token};
use semel_core::key::Key;
use semel_core::lifecycle::State;
use semel_core::name::QueueName;
use semel_core::time::{Millis, Timestamp};

use super::{Answer, Call, Delivered, Entry, Promise, Say};

/// A line that is not an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a line of a history: {0:?}")]
pub struct BadLine(pub String);

const SAYS: [(Say, &str); 5] = [
    (Say::Ack, "ack"),
    (Say::Nack, "nack"),
    (Say::Reject, "reject"),
    (Say::Defer, "defer"),
    (Say::Receive, "receive"),
];

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(p) => {
                write!(f, "Q {} {:x} {:x} {:x}", p.queue, p.cap, p.window.millis(), p.keep.millis())
            }
            Self::Invoke { op, at, call } => write!(f, "> {op:x} {:x} {call}", at.millis()),
            Self::Ok { op, at, answer } => write!(f, "+ {op:x} {:x} {answer}", at.millis()),
            Self::Fail { op, why } => write!(f, "- {op:x} {}", Escaped(why)),
            Self::Unknown { op, why } => write!(f, "? {op:x} {}", Escaped(why)),
            Self::Restart { at } => write!(f, "R {:x}", at.millis()),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Publish { queue, key, digest, delay } => {
                write!(f, "P {queue} {} {digest:x} {:x}", Keyed(key.as_ref()), delay.millis())
            }
            Self::Lease { queue, duration } => write!(f, "L {queue} {:x}", duration.millis()),
            Self::Settle { id, token, say } => write!(f, "S {:x} {:x} {}", id.raw(), token.raw(), name(*say)),
            Self::Extend { id, token } => write!(f, "E {:x} {:x}", id.raw(), token.raw()),
            Self::Cancel { id } => write!(f, "C {:x}", id.raw()),
            Self::Rescue => f.write_str("R"),
            Self::Prune => f.write_str("D"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Published { id, created_at, deduplicated, matches } => {
                let (id, at) = (id.raw(), created_at.millis());
                write!(f, "P {id:x} {at:x} {} {}", u8::from(*deduplicated), u8::from(*matches))
            }
            Self::Leased(deliveries) => {
                f.write_str("L")?;
                deliveries.iter().try_for_each(|d| write!(f, " {d}"))
            }
            Self::Settled { state, due, repeated } => {
                write!(f, "S {} ", state.name())?;
                match due {
                    Some(due) => write!(f, "{:x}", due.millis())?,
                    None => f.write_char('-')?,
                }
                write!(f, " {}", u8::from(*repeated))
            }
            Self::Extended { until } => write!(f, "E {:x}", until.millis()),
            Self::Cancelled => f.write_str("C"),
            Self::Rescued(jobs) => {
                f.write_str("R")?;
                jobs.iter().try_for_each(|id| write!(f, " {:x}", id.raw()))
            }
            Self::Pruned { dropped, stripped } => write!(f, "D {dropped:x} {stripped:x}"),
        }
    }
}

impl fmt::Display for Delivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, token, deadline) = (self.id.raw(), self.token.raw(), self.deadline.millis());
        write!(f, "{id:x},{token:x},{:x},{:x},{:x},", self.attempt, self.max_attempts, self.deferrals)?;
        write!(f, "{deadline:x},{:x},{}", self.digest, Keyed(self.key.as_ref()))
    }
}

fn name(say: Say) -> &'static str {
    SAYS.iter().find(|(known, _)| *known == say).map_or("", |(_, name)| name)
}

/// Text in which nothing can be taken for the end of a field: all but letters, digits and a few signs as `%xx`.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b':') {
                f.write_char(char::from(byte))?;
            } else {
                write!(f, "%{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// A key, or `-` for none; an escaped key never begins with `-`.
struct Keyed<'a>(Option<&'a Key>);

impl fmt::Display for Keyed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => Escaped(key.as_str()).fmt(f),
            None => f.write_char('-'),
        }
    }
}

impl FromStr for Entry {
    type Err = BadLine;

    fn from_str(line: &str) -> Result<Self, BadLine> {
        let mut fields = Fields(line.split(' '));
        fields.entry().filter(|_| fields.0.next().is_none()).ok_or_else(|| BadLine(line.into()))
    }
}

/// The fields of a line, read from left to right.
struct Fields<'a, I: Iterator<Item = &'a str>>(I);

impl<'a, I: Iterator<Item = &'a str>> Fields<'a, I> {
    fn entry(&mut self) -> Option<Entry> {
        Some(match self.0.next()? {
            "Q" => Entry::Queue(Promise {
                queue: self.queue()?,
                cap: self.small()?,
                window: self.span()?,
                keep: self.span()?,
            }),
            ">" => Entry::Invoke { op: self.number()?, at: self.time()?, call: self.call()? },
            "+" => Entry::Ok { op: self.number()?, at: self.time()?, answer: self.answer()? },
            "-" => Entry::Fail { op: self.number()?, why: self.text()? },
            "?" => Entry::Unknown { op: self.number()?, why: self.text()? },
            "R" => Entry::Restart { at: self.time()? },
            _ => return None,
        })
    }

    fn call(&mut self) -> Option<Call> {
        Some(match self.0.next()? {
            "P" => Call::Publish {
                queue: self.queue()?,
                key: self.key()?,
                digest: self.number()?,
                delay: self.span()?,
            },
            "L" => Call::Lease { queue: self.queue()?, duration: self.span()? },
            "S" => Call::Settle { id: self.id()?, token: self.token()?, say: self.say()? },
            "E" => Call::Extend { id: self.id()?, token: self.token()? },
            "C" => Call::Cancel { id: self.id()? },
            "R" => Call::Rescue,
            "D" => Call::Prune,
            _ => return None,
        })
    }

    fn answer(&mut self) -> Option<Answer> {
        Some(match self.0.next()? {
            "P" => Answer::Published {
                id: self.id()?,
                created_at: self.time()?,
                deduplicated: self.flag()?,
                matches: self.flag()?,
            },
            "L" => Answer::Leased(self.0.by_ref().map(delivered).collect::<Option<_>>()?),
            "S" => Answer::Settled { state: self.state()?, due: self.due()?, repeated: self.flag()? },
            "E" => Answer::Extended { until: self.time()? },
            "C" => Answer::Cancelled,
            "R" => Answer::Rescued(
                self.0.by_ref().map(|id| Fields([id].into_iter()).id()).collect::<Option<_>>()?,
            ),
            "D" => Answer::Pruned { dropped: self.small()?, stripped: self.small()? },
            _ => return None,
        })
    }

    fn number(&mut self) -> Option<u64> {
        u64::from_str_radix(self.0.next()?, 16).ok()
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn flag(&mut self) -> Option<bool> {
        Some(self.number()? != 0)
    }

    fn time(&mut self) -> Option<Timestamp> {
        self.number().map(Timestamp::from_millis)
    }

    fn span(&mut self) -> Option<Millis> {
        self.number().map(Millis::from_millis)
    }

    fn id(&mut self) -> Option<JobId> {
        self.number().and_then(JobId::from_raw)
    }

    fn token(&mut self) -> Option<Token> {
        self.number().map(Token::from_raw)
    }

    fn due(&mut self) -> Option<Option<Timestamp>> {
        match self.0.next()? {
            "-" => Some(None),
            due => u64::from_str_radix(due, 16).ok().map(|ms| Some(Timestamp::from_millis(ms))),
        }
    }

    fn queue(&mut self) -> Option<QueueName> {
        QueueName::try_from(self.0.next()?).ok()
    }

    fn key(&mut self) -> Option<Option<Key>> {
        match self.0.next()? {
            "-" => Some(None),
            key => Key::try_from(unescaped(key)?).ok().map(Some),
        }
    }

    fn text(&mut self) -> Option<String> {
        unescaped(self.0.next()?)
    }

    fn say(&mut self) -> Option<Say> {
        let wanted = self.0.next()?;
        SAYS.iter().find(|(_, name)| *name == wanted).map(|(say, _)| *say)
    }

    fn state(&mut self) -> Option<State> {
        let wanted = self.0.next()?;
        State::ALL.into_iter().find(|state| state.name() == wanted)
    }
}

fn delivered(text: &str) -> Option<Delivered> {
    let mut fields = Fields(text.split(','));
    Some(Delivered {
        id: fields.id()?,
        token: fields.token()?,
        attempt: fields.small()?,
        max_attempts: fields.small()?,
        deferrals: fields.small()?,
        deadline: fields.time()?,
        digest: fields.number()?,
        key: fields.key()?,
    })
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' { hex(rest.next()?)? * 16 + hex(rest.next()?)? } else { byte });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(raw: u64) -> JobId {
        JobId::from_raw(raw).unwrap()
    }

    fn time(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn calls() -> Vec<Call> {
        let queue = || QueueName::try_from("eu-west.1:mail").unwrap();
        let (key, token) = (Key::try_from("größe, 42 - %;").unwrap(), Token::first(3));
        let delay = Millis::from_secs(5);
        let mut all = vec![
            Call::Publish { queue: queue(), key: Some(key), digest: u64::MAX, delay },
            Call::Publish { queue: queue(), key: None, digest: 0, delay: Millis::ZERO },
            Call::Lease { queue: queue(), duration: delay },
            Call::Extend { id: id(7), token },
            Call::Cancel { id: id(i64::MAX as u64) },
            Call::Rescue,
            Call::Prune,
        ];
        all.extend(SAYS.iter().map(|(say, _)| Call::Settle { id: id(9), token, say: *say }));
        all
    }

    fn answers() -> Vec<Answer> {
        let delivered = |key: Option<&str>| Delivered {
            id: id(77),
            token: Token::first(2).next(),
            attempt: 2,
            max_attempts: 9,
            deferrals: 1,
            deadline: time(99),
            digest: 0xfeed,
            key: key.map(|k| Key::try_from(k).unwrap()),
        };
        let mut all = vec![
            Answer::Published { id: id(5), created_at: time(1), deduplicated: true, matches: false },
            Answer::Leased(vec![]),
            Answer::Leased(vec![delivered(Some("a b,c")), delivered(None)]),
            Answer::Extended { until: time(8) },
            Answer::Cancelled,
            Answer::Rescued(vec![]),
            Answer::Rescued(vec![id(1), id(2)]),
            Answer::Pruned { dropped: 3, stripped: 0 },
        ];
        all.extend(State::ALL.map(|state| Answer::Settled { state, due: None, repeated: false }));
        all.push(Answer::Settled { state: State::Pending, due: Some(time(12)), repeated: true });
        all
    }

    #[test]
    fn every_entry_survives_its_line() {
        let queue = QueueName::try_from("q").unwrap();
        let promise = Promise { queue, cap: 3, window: Millis::from_days(7), keep: Millis::ZERO };
        let mut entries = vec![
            Entry::Queue(promise),
            Entry::Fail { op: 3, why: "stale_lease".into() },
            Entry::Unknown { op: 4, why: "it is gone: 5 %".into() },
            Entry::Restart { at: time(6) },
        ];
        entries.extend(calls().into_iter().map(|call| Entry::Invoke {
            op: u64::MAX,
            at: time(u64::MAX),
            call,
        }));
        entries.extend(answers().into_iter().map(|answer| Entry::Ok { op: 1, at: time(2), answer }));
        for entry in entries {
            let line = entry.to_string();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(line.parse::<Entry>().as_ref(), Ok(&entry), "{line}");
        }
    }

    #[test]
    fn half_a_line_is_not_an_entry() {
        let call = Call::Settle { id: id(9), token: Token::first(1), say: Say::Defer };
        let line = Entry::Invoke { op: 18, at: time(500), call }.to_string();
        for end in 0..line.len() {
            assert!(line[..end].parse::<Entry>().is_err(), "{}", &line[..end]);
        }
        assert!(format!("{line} ").parse::<Entry>().is_err());
        assert!("> 1 2 X".parse::<Entry>().is_err());
    }
}
