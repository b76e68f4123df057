//! The W3C trace context of a publish, carried to the worker.

/// The metadata entry that carries a publisher's `traceparent`.
pub const METADATA_NAME: &str = "traceparent";

/// A `traceparent` header that makes sense, as it came; anything else is ignored, as its standard says.
pub fn valid(header: &str) -> Option<&str> {
    let mut parts = header.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is = |text: &str, length| {
        text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let whole = is(version, 2) && is(trace, 32) && is(span, 16) && is(flags, 2);
    let is_known = version == "00" && parts.next().is_none();
    let is_set = trace.bytes().any(|b| b != b'0') && span.bytes().any(|b| b != b'0');
    (whole && is_known && is_set).then_some(header)
}

/// The header of a delivery: the publisher's trace, with the delivery as the parent.
pub(super) fn child(parent: &str, delivery: u64) -> Option<String> {
    let (trace, flags) = (valid(parent)?.get(3..35)?, parent.get(53..55)?);
    Some(format!("00-{trace}-{:016x}-{flags}", delivery.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_delivery_belongs_to_the_trace_of_its_publish() {
        let child = child(GOOD, 0xabc).unwrap();
        assert_eq!(child, "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000abc-01");
        assert_eq!(valid(&child), Some(child.as_str()));
    }

    #[test]
    fn what_makes_no_sense_is_ignored() {
        let zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let upper = GOOD.to_uppercase();
        for bad in ["", "00", "ff-x", zeros, &upper, &GOOD[..54], &format!("{GOOD}-x"), "é0-a-b-c"] {
            assert_eq!(valid(bad), None, "{bad}");
        }
    }
}
