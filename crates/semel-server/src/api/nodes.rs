//! The nodes that share a store.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use semel_core::records::Scope;
use semel_store::shared::{Exposure, NodeId, NodeRecord};
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::Caller;
use super::json::Json;
use super::problem::{Problem, ProblemBody};
use super::wire::Time;
use crate::service::Service;

/// A node.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Node)]
pub(super) struct NodeView {
    /// Its number, unique among those that are up.
    id: u16,
    /// What people call it.
    name: String,
    /// Where it is reached; empty if nobody said.
    address: String,
    /// The version it runs.
    version: String,
    /// When it joined.
    #[schema(value_type = String, format = DateTime)]
    started_at: Time,
    /// Its last heartbeat.
    #[schema(value_type = String, format = DateTime)]
    seen_at: Time,
    /// Whether it is the one that answers.
    this: bool,
    /// Whether it is taken to be dead, because its heartbeat stopped.
    lost: bool,
    /// What it does for all nodes.
    roles: Vec<String>,
}

impl NodeView {
    fn of(record: NodeRecord, this: NodeId) -> Self {
        Self {
            id: record.id.0,
            name: record.name,
            address: record.address,
            version: record.version,
            started_at: Time(record.started_at),
            seen_at: Time(record.seen_at),
            this: record.id == this,
            lost: record.lost,
            roles: record.roles,
        }
    }
}

/// A time of which the store may lack what it answered, because another database server took over, or a backup was restored.
/// Jobs from before it are delivered as possibly applied.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Exposure)]
pub(super) struct ExposureView {
    /// Up to here nothing is missing.
    #[schema(value_type = String, format = DateTime)]
    since: Time,
    /// From here on nothing is missing.
    #[schema(value_type = String, format = DateTime)]
    until: Time,
}

impl ExposureView {
    fn of(exposure: Exposure) -> Self {
        Self { since: Time(exposure.since), until: Time(exposure.until) }
    }
}

/// The nodes that share a store.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NodeList {
    /// By number. On a store of its own, a server is the only one.
    nodes: Vec<NodeView>,
    /// The latest time of which the store may lack what it answered; null if there never was one.
    #[schema(required = true)]
    exposure: Option<ExposureView>,
}

/// The nodes, with those that died not long ago.
#[utoipa::path(get, path = "/v1/nodes", tag = "operate",
    responses((status = 200, description = "The nodes", body = NodeList), (status = "4XX", description = "Not shown", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not known now", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn nodes(State(service): State<Arc<Service>>, caller: Caller) -> Result<Response, Problem> {
    caller.may(Scope::Read)?;
    let (this, records) = service.peers.nodes(&service).await?;
    let nodes = records.into_iter().map(|record| NodeView::of(record, this)).collect();
    let exposure = service.peers.exposure().map(ExposureView::of);
    Ok(Json(NodeList { nodes, exposure }).into_response())
}
