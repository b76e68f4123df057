//! Work that takes long because it is about many bytes.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Bytes that are read or written within a millisecond.
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
