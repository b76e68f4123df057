//! The accept layer against clients that are broken, slow, too many, or just leaving. What is about time runs on pipes
//! with the clock of the test, what is about sockets on real ones.

mod crowd;
mod farewell;
mod http2;
mod kit;
mod malformed;
mod slow;
mod tls;
