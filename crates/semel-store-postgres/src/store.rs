//! The store as its callers see it.

use std::sync::Mutex;

use semel_core::ids::IdGenerator;
use semel_core::time::Timestamp;
use semel_store::StoreError;

use crate::apply::Luck;
use crate::catalog::Catalog;
use crate::clock::StoreClock;
use crate::connect::{Maker, Pool};
use crate::handed_out::HandedOut;
use crate::join::Place;
use crate::lease::Marks;
use crate::options::Options;
use crate::peers::{Ear, Hush, Seat};
use crate::{days, join, migrate, reign, survey};

/// An open PostgreSQL store: one node of as many as there are.
#[derive(Debug)]
pub struct PostgresStore {
    pub(crate) pool: Pool,
    pub(crate) clock: StoreClock,
    pub(crate) options: Options,
    /// This node's place on the list: its number is the lane of its ids.
    pub(crate) seat: Seat,
    pub(crate) ids: Mutex<IdGenerator>,
    /// What it remembers of the queues.
    pub(crate) catalog: Catalog,
    /// Whether new keys are to be expected.
    pub(crate) luck: Luck,
    /// What it remembers of the deliveries that it handed out.
    pub(crate) handed_out: HandedOut,
    /// Where it looks for ready jobs.
    pub(crate) marks: Marks,
    /// When it looks after the partitions next.
    pub(crate) tend_days_at: Mutex<Timestamp>,
    /// How it hears the others.
    pub(crate) ear: Ear,
    /// What it does not tell them.
    pub(crate) hush: Hush,
}

impl PostgresStore {
    /// Opens the store in the database at `url`, brings its schema up to date if it may, and joins the other nodes.
    pub async fn open(url: &str, options: Options) -> Result<Self, StoreError> {
        match options.migrate {
            true => drop(migrate::migrate(url).await?),
            false => migrate::require_current(url).await?,
        }
        let pool = Pool::new(url, &options)?;
        pool.meet_all().await;
        let clock = StoreClock::new(options.clock.clone());
        let session = pool.session().await.map_err(|fault| survey::not_opened(&fault))?;
        reign::establish(&session).await.map_err(|fault| survey::not_opened(&fault))?;
        let place = join::join(&session, &clock, &options).await?;
        if let Err(fault) = days::make(&session, clock.now(), options.days_ahead).await {
            tracing::warn!(%fault, "no partitions were made for the coming days; it is tried again");
        }
        drop(session);
        let seat = Seat::new(place.node, place.joined_at);
        let listens = Maker::new(options.listen_url.as_deref().unwrap_or(url), &options)?.remembering(&pool);
        let ear = Ear::new(listens, pool.clone(), seat.clone());
        let (ids, catalog) = (Mutex::new(place.ids), Catalog::default());
        let (luck, handed_out, tend_days_at) = (Luck::default(), HandedOut::default(), Mutex::default());
        let (marks, hush) = (Marks::default(), Hush::default());
        Ok(Self {
            pool,
            clock,
            options,
            seat,
            ids,
            catalog,
            luck,
            handed_out,
            marks,
            tend_days_at,
            ear,
            hush,
        })
    }

    /// This node's number among the nodes of the store.
    pub fn node(&self) -> i32 {
        self.seat.node()
    }

    /// Sits down at another place, after others had given this node up.
    pub(crate) fn move_to(&self, place: Place) {
        *self.ids.lock().expect("the lock is never held across a panic") = place.ids;
        self.seat.change(place.node, place.joined_at);
    }

    /// Makes the partitions of the coming days, and says how many days were without. A store that stays open for days must
    /// be asked again each day.
    pub async fn make_days(&self) -> Result<u32, StoreError> {
        let session = self.pool.session().await.map_err(|fault| fault.nothing_done())?;
        let made = days::make(&session, self.clock.now(), self.options.days_ahead).await;
        made.map(|days| u32::try_from(days).unwrap_or(0)).map_err(|fault| fault.nothing_done())
    }

    /// Ends the store and gives its place back. Everything that was answered is durable already. If the database cannot be
    /// reached the place stays taken until another node finds that this one is gone.
    pub(crate) async fn leave(&self) -> Result<(), StoreError> {
        if self.pool.is_closed() {
            return Ok(());
        }
        let left = async { join::leave(&self.pool.session().await?, self.node()).await };
        if let Err(fault) = left.await {
            tracing::warn!(%fault, node = self.node(), "could not take this node off the list");
        }
        self.end();
        Ok(())
    }

    /// Stops without a word, as a crash would: its connections end, its place and its leases stay as they are.
    pub fn abandon(&self) {
        self.end();
    }

    fn end(&self) {
        self.ear.stop();
        self.pool.close();
    }
}
