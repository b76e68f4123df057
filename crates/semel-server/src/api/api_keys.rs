//! API keys: who may do what.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use rand::RngExt as _;
use semel_core::records::{ApiKeyRecord, Scope};
use semel_core::violation::Violations;
use semel_store::Command;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::auth::Caller;
use super::body::Body;
use super::json::Json;
use super::path::Named;
use super::problem::{Problem, ProblemBody};
use super::wire::{self, Time};
use crate::credentials;
use crate::service::Service;

/// Longest label, and longest glob.
const TEXT_MAX: usize = 255;
/// Most globs a key has.
const GLOBS_MAX: usize = 100;

/// A new API key.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(as = NewApiKey)]
pub(super) struct NewKeyBody {
    /// What people call it.
    #[schema(max_length = 255)]
    label: Option<String>,
    /// `publish`, `work`, `read`, `manage`, `admin`.
    #[schema(value_type = Vec<String>, required = true)]
    scopes: Option<Vec<Scope>>,
    /// Which queues, as globs (`*`).
    queues: Option<Vec<String>>,
    /// When it stops working.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Time>,
}

/// An API key, without its secret.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ApiKey)]
pub(super) struct KeyView {
    /// Its id.
    id: String,
    /// What people call it.
    label: String,
    /// What it may be used for.
    #[schema(value_type = Vec<String>)]
    scopes: Vec<Scope>,
    /// Which queues.
    queues: Vec<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// When it stops working.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    expires_at: Option<Time>,
    /// When it was last used, to the minute.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    last_used_at: Option<Time>,
}

/// A new API key with its secret, which is shown this once.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApiKeyWithSecret)]
pub(super) struct NewKeyView {
    /// The key.
    #[serde(flatten)]
    view: KeyView,
    /// The secret, for the header `Authorization: Bearer ...`.
    secret: String,
}

impl KeyView {
    fn of(record: ApiKeyRecord) -> Self {
        Self {
            id: record.id,
            label: record.label,
            scopes: record.scopes,
            queues: record.queues,
            created_at: Time(record.created_at),
            expires_at: record.expires_at.map(Time),
            last_used_at: record.last_used_at.map(Time),
        }
    }
}

impl NewKeyBody {
    fn check(&self) -> Result<(), Violations> {
        let mut wrong = Violations::default();
        let scopes = self.scopes.as_deref().unwrap_or_default();
        wrong.require(!scopes.is_empty(), "scopes", || {
            "is required: some of publish, work, read, manage, admin".into()
        });
        let fits = |text: &String| {
            !text.is_empty() && text.chars().count() <= TEXT_MAX && !text.contains(char::is_control)
        };
        let label_fits = self.label.as_ref().is_none_or(|label| label.is_empty() || fits(label));
        wrong.require(label_fits, "label", || format!("must be at most {TEXT_MAX} printable characters"));
        let globs = self.queues.as_deref().unwrap_or_default();
        let queues_fit = globs.len() <= GLOBS_MAX && globs.iter().all(fits);
        wrong.require(queues_fit, "queues", || {
            format!("must be at most {GLOBS_MAX} globs of 1 to {TEXT_MAX} characters")
        });
        wrong.into_result()
    }
}

/// Makes an API key. Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/v1/api-keys", tag = "api keys", request_body = NewKeyBody,
    responses((status = 201, description = "The key and its secret", body = NewKeyView), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn create_key(
    State(service): State<Arc<Service>>,
    caller: Caller,
    body: Body,
) -> Result<Response, Problem> {
    caller.may_everywhere(Scope::Admin)?;
    let asked = wire::read_checked(&body.bytes, |asked: NewKeyBody| {
        asked.check()?;
        Ok(asked)
    })?;
    let secret = credentials::mint();
    let record = ApiKeyRecord {
        id: format!("key_{:016x}", rand::rng().random::<u64>()),
        hash: credentials::hash(secret.expose()),
        label: asked.label.unwrap_or_default(),
        scopes: asked.scopes.unwrap_or_default(),
        queues: asked.queues.unwrap_or_else(|| vec!["*".to_owned()]),
        created_at: service.store.now(),
        expires_at: asked.expires_at.map(|time| time.0),
        last_used_at: None,
    };
    service.commit.submit(Command::PutApiKey(Box::new(record.clone()))).await?;
    service.keyring.reload(service.store.as_ref()).await?;
    let answer = NewKeyView { view: KeyView::of(record), secret: secret.expose().to_owned() };
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// API keys.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct KeyList {
    /// By id.
    api_keys: Vec<KeyView>,
}

/// All API keys, without their secrets.
#[utoipa::path(get, path = "/v1/api-keys", tag = "api keys",
    responses((status = 200, description = "The keys", body = KeyList), (status = "4XX", description = "Not shown", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn list_keys(
    State(service): State<Arc<Service>>,
    caller: Caller,
) -> Result<Response, Problem> {
    caller.may_everywhere(Scope::Admin)?;
    let records = service.store.api_keys().await?;
    Ok(Json(KeyList { api_keys: records.into_iter().map(KeyView::of).collect() }).into_response())
}

/// Takes an API key away: it stops working at once.
#[utoipa::path(delete, path = "/v1/api-keys/{name}", tag = "api keys", params(("name" = String, Path, description = "The id of the key")),
    responses((status = 204, description = "Gone"), (status = "4XX", description = "Nothing changed", body = ProblemBody, content_type = "application/problem+json"), (status = "5XX", description = "Not done, or not known", body = ProblemBody, content_type = "application/problem+json")))]
pub(super) async fn delete_key(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Named(id): Named,
) -> Result<Response, Problem> {
    caller.may_everywhere(Scope::Admin)?;
    service.commit.submit(Command::DeleteApiKey(id)).await?;
    service.keyring.reload(service.store.as_ref()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
