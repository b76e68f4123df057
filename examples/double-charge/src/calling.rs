//! The worker's side of a call to the provider.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::failure::Failure;
use crate::provider::{KEY, Receipt};
use crate::shop::Order;

#[derive(Debug, Clone)]
pub(crate) struct Service {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
}

impl Service {
    pub(crate) fn at(url: String) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).build_http(), url }
    }

    /// Charges the card of an order, or sends its mail: whatever this service does.
    pub(crate) async fn ask(&self, order: Order, key: Option<&str>) -> Result<Receipt, Failure> {
        let request = Request::post(&self.url).header("content-type", "application/json");
        let request = key.into_iter().fold(request, |request, key| request.header(KEY, key));
        let body = Full::from(serde_json::to_vec(&order)?);
        let answer = self.client.request(request.body(body)?).await?;
        if answer.status() != StatusCode::OK {
            return Err(Failure::Refused(answer.status()));
        }
        Ok(serde_json::from_slice(&answer.into_body().collect().await?.to_bytes())?)
    }
}
