//! The host that is tested: a whole server on the simulated network.

use std::sync::Arc;

use semel_server::delivery::call::{Caller, CallerOptions};
use semel_server::delivery::guard::Guard;
use semel_server::net::{self, Limits, Server};
use semel_server::service::{AuthMode, Options, Running};
use semel_server::stop;

use crate::disk::Disk;
use crate::net::{SimDial, SimListener, SimResolver};
use crate::world::World;

/// The network that turmoil gives its hosts addresses of.
const SUBNET: &str = "192.168.0.0/16";

/// Runs until it crashes. What it had in memory is gone then; the store it finds again.
pub(crate) async fn run(world: Arc<World>) -> turmoil::Result {
    let caller = Caller::new(CallerOptions {
        guard: Guard::new(vec![SUBNET.parse()?], &[]),
        resolver: Arc::new(SimResolver),
        dial: Arc::new(SimDial),
        extra_ca: None,
        idle_per_host: 8,
    })?;
    let options = Options { auth: AuthMode::Open, ..Options::default() };
    let running = Running::start(Arc::new(Disk(world)), None, caller, None, options).await?;
    let (_stopper, stop) = stop::pair();
    let service = running.service().clone();
    let server = Server {
        // The default asks the machine how many descriptors there are.
        limits: Limits { max_connections: 100, ..Limits::default() },
        shed: Arc::new(move || service.overloaded()),
        ..Server::new(running.router())
    };
    net::serve(SimListener::bind().await?, server, stop).await;
    Err("a server that nobody stopped has ended".into())
}
