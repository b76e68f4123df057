//! The wish that everything end, passed to everything that runs.

use tokio::sync::watch;

/// Says when to stop.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Hears when to stop.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

/// A stopper and what listens to it.
pub fn pair() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    /// Asks everybody to stop.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Whether it is time to stop.
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when it is time to stop; also when whoever could say so is gone.
    pub async fn stopped(&self) {
        // A stopper that was dropped cannot be waited for: that counts as a wish to stop.
        drop(self.0.clone().wait_for(|stopped| *stopped).await);
    }
}
