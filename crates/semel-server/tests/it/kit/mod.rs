//! What scenarios are made of: a server ([`World`]), a worker with a webhook ([`Worker`]), requests and answers.

mod backend;
mod events;
mod http;
mod line;
mod worker;
mod world;

pub(crate) use self::backend::{Backend, Home, Opened, options as postgres_options};
pub(crate) use self::events::Events;
pub(crate) use self::http::{Answer, Client};
pub(crate) use self::line::Line;
pub(crate) use self::worker::{Received, Worker, answer};
pub(crate) use self::world::{NEVER, START, World, caller, eventually, millis, secs, text, usual_options};

use std::time::Duration;

/// Longer than anything here takes, on a machine that is busy with other things too: past it a scenario has found a hang.
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for what must happen.
pub(crate) async fn within<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, wait).await.expect("what the scenario waits for does not happen")
}

/// Makes a test of each scenario for every backend. Those that want another server than the usual one say how it is to
/// behave: `scenarios!(with options: a, b)`, where `options` is a `fn(&Path) -> Options` that gets the world's directory.
macro_rules! scenarios {
    (with $options:ident: $($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let world = crate::kit::World::shaped(crate::kit::Backend::Memory, super::$options).await;
                super::$name(&world).await;
                world.end().await;
            })*
        }
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let world = crate::kit::World::shaped(crate::kit::Backend::Embedded, super::$options).await;
                super::$name(&world).await;
                world.end().await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let world = crate::kit::World::shaped(crate::kit::Backend::Postgres, super::$options).await;
                super::$name(&world).await;
                world.end().await;
            })*
        }
    };
    ($($name:ident),* $(,)?) => {
        $crate::kit::scenarios!(with usual_options: $($name),*);
        use crate::kit::usual_options;
    };
}
pub(crate) use scenarios;
