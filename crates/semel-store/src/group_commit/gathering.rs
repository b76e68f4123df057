//! How many commands the next commit waits for.
//!
//! A commit to a database has a price of its own, that of some dozens of rows. Callers who have just been answered often come
//! back at once, and a commit that sets out without them is small, as is the one after it. So for a moment after a commit the
//! next waits until as many are there as there usually are. How many that is shows by itself: if more come it is more, if time
//! runs out it is those who are there. Then some of them are in one commit while the others wait for the next, in turns: so where
//! there are more than usual, all of them are waited for now and then, ever more rarely while they do not come.
//!
//! That is so for few callers, and where several nodes commit to one database. Of the many callers of a node alone nobody is waited
//! for: while some are in a commit the others are answered, come back and make the next, and each part has always something to do.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::batcher::Batcher;

/// Where nobody else commits, all callers are waited for up to so many, and none of more. A commit of all costs less, but while it is
/// flushed nobody has anything to do. With 8 callers waiting gave an eighth more; with 16 and 32, not waiting gave a fifth more, and
/// with 64 a twentieth.
const ALL_OF: usize = 12;

/// Where others commit, too, more than these are not waited for, times as many as there are who commit: each of them has a commit on
/// its way, and is a part of all callers already.
const WORTH_A_COMMIT: usize = 22;

/// Those who are known are forgotten by this part with each commit that does not show them: not all can be seen at every moment.
const FORGOTTEN: usize = 16;

/// Fewer than these are not waited for: whoever sends one command after the other is answered at once.
const FEW: usize = 4;

/// How many commits find what is usual before more is waited for.
const CONTENT_FOR: u32 = 8;

/// The same after it was waited for in vain again and again. Each time costs the whole span, which is as long as a commit or two.
const CONTENT_FOR_MAX: u32 = 512;

/// Nodes that share a database, and its machine perhaps, are slower each, and so are their callers: they are waited for that many
/// times as long, but no more than this many times. With three nodes of 64 callers each on two cores, where callers take some
/// milliseconds to come back, that made commits of 64 instead of 44, and a tenth more publishes.
const PATIENCE_MAX: u32 = 4;

/// What the driver knows about those who come back.
#[derive(Debug)]
pub(super) struct Gathering {
    /// How long they are waited for where nobody else commits; zero if they are not.
    span: Duration,
    /// How many commit to the same store, this one included.
    sharers: usize,
    /// How many there usually are.
    usual: usize,
    /// How many there are: whoever was in a commit or waited for one when the last few were answered.
    known: usize,
    /// How many commits in a row were as large.
    content: u32,
    /// After how many more are waited for.
    content_for: u32,
    /// Whether more are waited for than usual.
    hopes: bool,
    /// Until when the next commit may wait.
    until: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Gathering {
    pub(super) fn new(span: Duration) -> Self {
        Self {
            span,
            sharers: 1,
            usual: 1,
            known: 0,
            content: 0,
            content_for: CONTENT_FOR,
            hopes: false,
            until: None,
            timer: None,
        }
    }

    /// Says how many commit to the same store, this one included. Each has commits on their way, and more of them at once only
    /// get into each other's way: so that there are no more in all, each is as many times as large.
    pub(super) fn share_among(&mut self, sharers: usize) {
        self.sharers = sharers.max(1);
        self.usual = self.usual.min(self.worth());
    }

    /// More than these are not waited for.
    fn worth(&self) -> usize {
        match self.sharers {
            1 if self.known > ALL_OF => 0,
            1 => ALL_OF,
            sharers => WORTH_A_COMMIT.saturating_mul(sharers),
        }
    }

    fn patience(&self) -> u32 {
        u32::try_from(self.sharers).unwrap_or(PATIENCE_MAX).min(PATIENCE_MAX)
    }

    /// Notes that callers have been answered, of so many that are known.
    pub(super) fn answered(&mut self, known: usize) {
        self.known = known.max(self.known - self.known.div_ceil(FORGOTTEN));
        self.usual = self.usual.min(self.worth());
        if self.usual >= FEW && !self.span.is_zero() {
            self.until = Some(Instant::now() + self.span * self.patience());
            self.timer = None;
        }
    }

    /// Notes that a commit sets out.
    pub(super) fn sets_out(&mut self, commands: usize) {
        self.until = None;
        if commands < self.usual {
            return;
        }
        if std::mem::take(&mut self.hopes) {
            self.content_for = CONTENT_FOR;
        }
        self.content += 1;
        self.usual = commands.min(self.worth());
        let all = self.known.min(self.worth());
        if self.content >= self.content_for && (FEW..all).contains(&self.usual) {
            self.content = 0;
            self.usual = all;
            self.hopes = true;
        }
    }

    /// Notes that those who were waited for did not come. If they were more than usual, there are only so many; if not,
    /// something has changed, and may change back.
    fn ran_out(&mut self, waiting: usize) {
        self.content_for = match std::mem::take(&mut self.hopes) {
            true => (self.content_for * 2).min(CONTENT_FOR_MAX),
            false => CONTENT_FOR,
        };
        self.usual = waiting.max(1);
        self.content = 0;
    }

    /// For how many commands a commit sets out although `others` are on their way: as many as those, and not a small one. None
    /// if it never does: a node alone has one commit after the other, as long as none of them takes long.
    pub(super) fn beside(&self, others: usize) -> Option<usize> {
        (self.sharers > 1 && !self.span.is_zero()).then(|| others.max(self.worth()))
    }

    /// Whether the next commit waits still.
    pub(super) fn is_under_way<T>(&mut self, cx: &mut Context<'_>, queue: &Batcher<T>) -> bool {
        let Some(until) = self.until else { return false };
        // Whoever comes first when nobody is there has the driver look again.
        if queue.waiting() == 0 {
            return false;
        }
        if queue.poll_gathered(cx, self.usual).is_pending() {
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if timer.as_mut().poll(cx) == Poll::Pending {
                return true;
            }
            self.ran_out(queue.waiting());
        }
        self.until = None;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that knows of so many callers.
    fn among(known: usize) -> Gathering {
        let mut gathering = Gathering::new(Duration::from_millis(1));
        gathering.answered(known);
        gathering
    }

    #[test]
    fn all_there_are_are_waited_for_now_and_then_and_never_too_many() {
        let mut gathering = among(ALL_OF);
        (1..CONTENT_FOR).for_each(|_| gathering.sets_out(8));
        assert_eq!(gathering.usual, 8);
        gathering.sets_out(8);
        assert_eq!(gathering.usual, ALL_OF);
        gathering.sets_out(9);
        assert_eq!(gathering.usual, ALL_OF, "fewer came for another reason");
        let mut shared = among(1000);
        shared.share_among(2);
        (0..CONTENT_FOR).for_each(|_| shared.sets_out(8));
        assert_eq!(shared.usual, 2 * WORTH_A_COMMIT);
    }

    #[test]
    fn of_many_callers_a_node_alone_waits_for_nobody() {
        let mut gathering = among(ALL_OF);
        gathering.sets_out(ALL_OF);
        gathering.answered(ALL_OF);
        assert_eq!((gathering.usual, gathering.until.is_some()), (ALL_OF, true));
        gathering.answered(ALL_OF + 1);
        gathering.sets_out(8);
        gathering.answered(ALL_OF + 1);
        assert_eq!((gathering.usual, gathering.until, gathering.beside(1)), (0, None, None));
        gathering.share_among(2);
        gathering.sets_out(8);
        gathering.answered(ALL_OF + 1);
        assert!(gathering.until.is_some(), "beside another it does");
        assert_eq!(gathering.beside(1), Some(2 * WORTH_A_COMMIT));
    }

    #[test]
    fn callers_who_are_not_seen_are_forgotten_little_by_little_and_the_rest_waited_for_again() {
        let mut gathering = among(64);
        gathering.sets_out(64);
        gathering.answered(32);
        assert_eq!(gathering.known, 60, "the others may just be on their way back");
        while gathering.known > 8 {
            gathering.answered(8);
            gathering.sets_out(8);
        }
        assert!((8..=ALL_OF).contains(&gathering.usual), "{}", gathering.usual);
        (0..8).for_each(|_| gathering.answered(0));
        assert_eq!(gathering.known, 0, "at least one each time");
    }

    #[test]
    fn nobody_is_waited_for_who_is_not_there() {
        let mut gathering = among(8);
        (0..10 * CONTENT_FOR).for_each(|_| gathering.sets_out(8));
        assert_eq!((gathering.usual, gathering.hopes), (8, false));
        gathering.answered(9);
        gathering.sets_out(8);
        assert_eq!((gathering.usual, gathering.hopes), (9, true), "a ninth has come");
    }

    #[test]
    fn more_are_waited_for_ever_more_rarely_until_they_come() {
        let mut gathering = among(10);
        let commits_until_hope = |gathering: &mut Gathering| {
            let begun = gathering.usual;
            (1..).find(|_| {
                gathering.sets_out(8);
                gathering.usual > begun.max(8)
            })
        };
        for expected in [CONTENT_FOR, 2 * CONTENT_FOR, 4 * CONTENT_FOR] {
            assert_eq!(commits_until_hope(&mut gathering), Some(expected));
            gathering.ran_out(8);
        }
        (0..20).for_each(|_| {
            commits_until_hope(&mut gathering);
            gathering.ran_out(8);
        });
        assert_eq!(commits_until_hope(&mut gathering), Some(CONTENT_FOR_MAX));
        gathering.sets_out(10);
        assert_eq!(gathering.content_for, CONTENT_FOR, "they have come, and more may come");
        gathering.content_for = CONTENT_FOR_MAX;
        gathering.ran_out(8);
        assert_eq!(
            commits_until_hope(&mut gathering),
            Some(CONTENT_FOR),
            "some stayed away, and may be back"
        );
    }

    #[test]
    fn the_more_commit_to_the_same_store_the_larger_is_each_commit() {
        let mut gathering = Gathering::new(Duration::from_millis(1));
        gathering.share_among(3);
        gathering.sets_out(1000);
        assert_eq!(gathering.usual, 3 * WORTH_A_COMMIT);
        assert_eq!(gathering.beside(1), Some(3 * WORTH_A_COMMIT));
        gathering.share_among(1);
        assert_eq!((gathering.usual, gathering.beside(1)), (ALL_OF, None));
    }

    #[tokio::test(start_paused = true)]
    async fn the_more_commit_to_the_same_store_the_longer_callers_are_waited_for_within_bounds() {
        let span = Duration::from_millis(2);
        let mut gathering = Gathering::new(span);
        for (sharers, spans) in [(0, 1), (1, 1), (3, 3), (4, 4), (1000, 4), (usize::MAX, 4), (1, 1)] {
            gathering.share_among(sharers);
            gathering.sets_out(FEW);
            gathering.answered(FEW);
            assert_eq!(gathering.until, Some(Instant::now() + span * spans), "{sharers}");
        }
    }

    #[test]
    fn few_are_not_waited_for_however_often_they_come() {
        let mut gathering = Gathering::new(Duration::from_millis(1));
        (0..10 * CONTENT_FOR).for_each(|_| gathering.sets_out(FEW - 1));
        gathering.answered(FEW - 1);
        assert_eq!((gathering.usual, gathering.until), (FEW - 1, None));
    }
}
