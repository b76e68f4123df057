//! Work that takes long because it is about many bytes.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// More than a few batches of a hundred small jobs have. To step aside costs a thread's wake-up, which is not worth it for less.
const FEW: usize = 256 * 1024;

/// Does work about that many bytes. What is about many steps aside for it: the other requests of its worker, of which there may
/// be no second one, go on with another thread.
pub(super) fn aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let many = bytes > FEW;
    // A simulation has one thread, and no other to go on with.
    if many && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
        return block_in_place(work);
    }
    work()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn others_go_on_while_a_single_worker_is_at_something_large() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let waited = runtime.block_on(async {
            let large = tokio::spawn(async {
                let (tell, told) = mpsc::channel();
                tokio::spawn(async move { tell.send(()) });
                aside(FEW + 1, || told.recv_timeout(Duration::from_secs(30)))
            });
            large.await.unwrap()
        });
        assert_eq!(waited, Ok(()), "the other task ran before the large one was through");
    }

    #[tokio::test]
    async fn where_there_is_one_thread_it_is_done_there() {
        assert_eq!(aside(FEW + 1, || 7), 7);
    }
}
