//! The HTTP API, one file per resource. Nobody outside this folder knows what the JSON looks like.

mod advice;
mod api_keys;
mod aside;
mod auth;
mod batch;
mod body;
pub mod code;
mod dead;
mod dry_run;
mod events;
mod gloss;
mod holds;
mod jobs;
mod json;
pub mod keyring;
mod keys;
mod lease;
mod nodes;
mod operate;
mod path;
pub mod problem;
mod publish;
mod queue_config;
mod queues;
mod replays;
mod schedules;
mod settle;
mod trace;
pub(crate) mod view;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::response::IntoResponse;
use axum::routing::get;
use utoipa::OpenApi;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use self::lease::DeliveryView;
pub(crate) use self::view::JobView;

use self::code::Code;
use self::problem::{Problem, ProblemBody};
use crate::service::Service;

/// What the description of the API says about itself.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Semel",
        description = "A job queue whose jobs are delivered at least once and whose effects happen once.",
        license(name = "Apache-2.0 OR MIT")
    ),
    components(schemas(ProblemBody)),
    modifiers(&BearerKeys)
)]
struct Description;

/// Says that requests carry an API key.
struct BearerKeys;

impl utoipa::Modify for BearerKeys {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
        let components = api.components.get_or_insert_default();
        components.add_security_scheme("apiKey", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
        api.security = Some(vec![SecurityRequirement::new("apiKey", Vec::<String>::new())]);
    }
}

fn routes() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(publish::publish))
        .routes(routes!(publish::publish_batch))
        .routes(routes!(lease::lease))
        .routes(routes!(settle::ack))
        .routes(routes!(settle::nack))
        .routes(routes!(settle::defer))
        .routes(routes!(settle::extend))
        .routes(routes!(settle::settle_batch))
        .routes(routes!(jobs::get_job))
        .routes(routes!(jobs::list_jobs))
        .routes(routes!(jobs::cancel_job))
        .routes(routes!(keys::get_key, keys::release_key))
        .routes(routes!(queues::put_queue, queues::get_queue, queues::delete_queue))
        .routes(routes!(queues::list_queues))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(queues::rotate_secret))
        .routes(routes!(dry_run::dedupe_dry_run))
        .merge(dead::routes())
        .merge(replays::routes())
        .merge(schedules::routes())
        .routes(routes!(api_keys::create_key, api_keys::list_keys))
        .routes(routes!(api_keys::delete_key))
        .routes(routes!(events::events))
        .routes(routes!(operate::stats))
        .routes(routes!(advice::advice))
        .routes(routes!(nodes::nodes))
        .routes(routes!(operate::healthz))
        .routes(routes!(operate::readyz))
        .routes(routes!(operate::metrics))
        .routes(routes!(operate::error_page))
}

/// Schemas that others are made of. A schema that allows no other members cannot be part of one that has some.
const PARTS: [&str; 3] = ["QueueConfig", "Push", "Pull"];

/// The description of the API, as it is committed and served.
pub fn openapi() -> String {
    let (_, mut api) = routes().split_for_parts();
    let schemas = api.components.iter_mut().flat_map(|components| &mut components.schemas);
    for (name, schema) in schemas {
        if let RefOr::T(Schema::Object(object)) = schema
            && PARTS.contains(&name.as_str())
        {
            object.additional_properties = None;
        }
    }
    let mut text = api.to_pretty_json().expect("the description is plain data");
    text.push('\n');
    text
}

/// Answers every request.
pub fn router(service: Arc<Service>) -> Router {
    let (router, _) = routes().split_for_parts();
    let description: Arc<str> = openapi().into();
    let serve = move || {
        let text = description.to_string();
        async move { ([(http::header::CONTENT_TYPE, "application/json")], text).into_response() }
    };
    let journal = service.options.journal.clone();
    let router = router
        .route("/openapi.json", get(serve))
        .fallback(|| async {
            Problem::new(Code::NotFound, "there is nothing at this path: see /openapi.json")
        })
        .method_not_allowed_fallback(|| async {
            Problem::new(Code::MethodNotAllowed, "this path does not take this method: see /openapi.json")
        })
        .with_state(service.clone());
    match journal {
        Some(journal) => router.layer(middleware::from_fn_with_state((service, journal), gloss::watch)),
        None => router,
    }
}
