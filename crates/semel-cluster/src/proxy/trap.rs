//! Cutting a connection at an exact place in its conversation.

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Whoever connected to the proxy.
    Client,
    /// What the proxy stands before.
    Server,
}

impl Side {
    pub(super) fn index(self) -> usize {
        match self {
            Self::Client => 0,
            Self::Server => 1,
        }
    }
}

/// What springs a trap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// These bytes, wherever the network has split them.
    Bytes(Vec<u8>),
    /// So many bytes on one connection or several, from when the trap was set.
    Count(usize),
}

/// Cuts the connection on which something is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trap {
    /// Who has to send it.
    pub from: Side,
    /// What has to be seen.
    pub when: Seen,
    /// Whether what springs the trap still arrives. The answer to it never does.
    pub deliver: bool,
}

impl Trap {
    /// PostgreSQL has committed, and the client does not hear of it. The server's answer is what springs it, so this is
    /// certain, and works for prepared statements too.
    pub fn commit_answer_lost() -> Self {
        Self { from: Side::Server, when: Seen::Bytes(b"COMMIT\0".to_vec()), deliver: false }
    }

    /// The client sends its COMMIT, as text, and PostgreSQL never sees it.
    pub fn commit_lost() -> Self {
        Self { from: Side::Client, when: Seen::Bytes(b"COMMIT\0".to_vec()), deliver: false }
    }

    /// The client sends its COMMIT, as text, and is gone before the answer.
    pub fn commit_sent() -> Self {
        Self { deliver: true, ..Self::commit_lost() }
    }

    /// How much of a chunk still arrives if the trap springs in it. `before` is what the same side sent last.
    pub(super) fn springs(&mut self, before: &[u8], chunk: &[u8]) -> Option<usize> {
        match &mut self.when {
            Seen::Count(left) if *left <= chunk.len() => Some(*left),
            Seen::Count(left) => {
                *left -= chunk.len();
                None
            }
            Seen::Bytes(pattern) => {
                let start = position(before, chunk, pattern)?;
                // A message goes on behind the pattern. Half of it would not be delivered.
                Some(if self.deliver { chunk.len() } else { start })
            }
        }
    }

    /// How many bytes to remember, so that a pattern is found that begins in one chunk and ends in the next.
    pub(super) fn memory(&self) -> usize {
        match &self.when {
            Seen::Bytes(pattern) => pattern.len().saturating_sub(1),
            Seen::Count(_) => 0,
        }
    }
}

/// Where in the chunk a pattern begins that ends in it; 0 if it began before.
fn position(before: &[u8], chunk: &[u8], pattern: &[u8]) -> Option<usize> {
    let all = [before, chunk].concat();
    let found = all.windows(pattern.len().max(1)).position(|window| window == pattern)?;
    Some(found.saturating_sub(before.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn withheld(when: Seen) -> Trap {
        Trap { from: Side::Client, when, deliver: false }
    }

    #[test]
    fn a_pattern_is_found_within_a_chunk_and_across_two() {
        let mut trap = withheld(Seen::Bytes(b"COMMIT".to_vec()));
        assert_eq!(trap.springs(b"", b"BEGIN COMMI"), None);
        assert_eq!(trap.springs(b"", b"xx COMMIT yy"), Some(3));
        assert_eq!(trap.springs(b"COMMI", b"T yy"), Some(0));
        trap.deliver = true;
        assert_eq!(trap.springs(b"COMMI", b"T yy"), Some(4));
    }

    #[test]
    fn a_count_goes_on_over_chunks() {
        let mut trap = withheld(Seen::Count(5));
        assert_eq!(trap.springs(b"", b"abc"), None);
        assert_eq!(trap.springs(b"", b"defg"), Some(2));
    }
}
