use axum::Router;
use semel_client::webhook::{Verifier, Webhook};
use semel_client::{Delivery, Outcome};

pub fn webhook(old_secret: &str, new_secret: &str) -> Router {
    // While a secret rotates, either of them will do.
    let verifier = Verifier::new([old_secret, new_secret]);
    Router::new().route_service("/hook", Webhook::new(verifier, index))
}

async fn index(delivery: Delivery) -> Outcome {
    match delivery.payload::<String>() {
        Ok(title) => Outcome::done_with(&title.to_lowercase()),
        Err(error) => Outcome::reject(error),
    }
}
