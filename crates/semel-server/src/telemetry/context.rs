//! The W3C trace context: the trace that something belongs to, and the span it belongs under.

use std::fmt;

use http::HeaderMap;
use semel_core::job::JobSpec;
use semel_core::lease::Delivery;

/// The header that carries it, and the metadata entry that keeps it with a job.
pub const NAME: &str = "traceparent";

/// The bit that says: this trace is recorded.
const SAMPLED: u8 = 1;

/// A place in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    trace: u128,
    span: u64,
    flags: u8,
}

impl Context {
    /// Reads a `traceparent`. One that makes no sense is none, as its standard says.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        if version != "00" || parts.next().is_some() {
            return None;
        }
        let context = Self {
            trace: hex(trace, 32)?,
            span: u64::try_from(hex(span, 16)?).ok()?,
            flags: u8::try_from(hex(flags, 2)?).ok()?,
        };
        (context.trace != 0 && context.span != 0).then_some(context)
    }

    /// What a request says about itself.
    pub fn of_request(headers: &HeaderMap) -> Option<Self> {
        Self::parse(headers.get(NAME)?.to_str().ok()?)
    }

    /// What was kept with a job when it was published.
    pub fn of_job(spec: &JobSpec) -> Option<Self> {
        let (_, kept) = spec.metadata.iter().find(|(name, _)| name == NAME)?;
        Self::parse(kept)
    }

    /// That of a delivery: the trace of the publish, with the delivery as the span.
    pub fn of_delivery(delivery: &Delivery) -> Option<Self> {
        Self::of_job(&delivery.spec).map(|publish| publish.at(delivery.token.raw()))
    }

    /// The beginning of a trace that is recorded.
    pub(super) fn root() -> Self {
        Self { trace: rand::random::<u128>().max(1), span: 0, flags: SAMPLED }.child()
    }

    /// A new span in the same trace.
    pub(super) fn child(self) -> Self {
        self.at(rand::random())
    }

    /// The same trace at another span. No span is called zero.
    pub(crate) fn at(self, span: u64) -> Self {
        Self { span: span.max(1), ..self }
    }

    /// Whether spans of this trace are recorded.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The number of the trace.
    pub fn trace(self) -> u128 {
        self.trace
    }

    /// The number of the span.
    pub fn span(self) -> u64 {
        self.span
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// A number of exactly so many small hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    (text.len() == digits && text.bytes().all(is_digit)).then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_delivery_belongs_to_the_trace_of_its_publish() {
        let publish = Context::parse(GOOD).unwrap();
        assert_eq!(publish.to_string(), GOOD);
        let delivery = publish.at(0xabc);
        assert_eq!(delivery.to_string(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000abc-01");
        assert_eq!(Context::parse(&delivery.to_string()), Some(delivery));
        assert_eq!(publish.at(0).span(), 1);
    }

    #[test]
    fn what_makes_no_sense_is_ignored() {
        let zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let (upper, sign) = (GOOD.to_uppercase(), GOOD.replace("00f0", "+0f0"));
        let (future, no_span) =
            (GOOD.replacen("00", "01", 1), GOOD.replace("00f067aa0ba902b7", "0000000000000000"));
        for bad in [
            "",
            "00",
            "ff-x",
            zeros,
            &upper,
            &sign,
            &future,
            &no_span,
            &GOOD[..54],
            &format!("{GOOD}-x"),
            "é0-a-b-c",
        ] {
            assert_eq!(Context::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_trace_that_begins_here_is_recorded_and_its_spans_differ() {
        let root = Context::root();
        assert!(root.is_sampled() && Context::parse(&root.to_string()) == Some(root));
        assert_eq!(root.child().trace(), root.trace());
        assert_ne!(root.child().span(), root.span());
        assert!(!Context::parse(&GOOD.replace("-01", "-02")).unwrap().is_sampled());
    }
}
