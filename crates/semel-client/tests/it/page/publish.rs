use std::time::Duration;

use semel_client::Publish;
use semel_client::http::{Client, Error, Published};
use serde_json::json;

pub fn connect(url: &str, api_key: &str) -> Result<Client, Error> {
    Client::builder(url).api_key(api_key).deadline(Duration::from_secs(10)).build()
}

pub async fn publish_order(client: &Client, order: u64) -> Result<Published, Box<dyn std::error::Error>> {
    let wish = Publish::new("orders", &json!({ "order": order }))?.key(format!("order-{order}"));
    Ok(client.publish(&wish).await?)
}
