//! Every call of the API, in one table. The router is built from it, and the tests check the OpenAPI document against it.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware;
use axum::response::Response;
use axum::routing;

use crate::{
    App, Problem, activity, audit, console, deliveries, events, explain, keys, openapi, replays, response,
    subscriptions, tenants, try_event, turns, urls,
};

macro_rules! routes {
    ($($method:ident $path:literal $handler:path;)*) => {
        /// The method, as the router names it, and the path of every call.
        pub const ROUTES: &[(&str, &str)] = &[$((stringify!($method), $path)),*];

        fn with_routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
            router$(.route($path, routing::$method($handler)))*
        }
    };
}

routes! {
    get "/healthz" healthz;
    get "/openapi.json" openapi::document;
    post "/v1/events" events::accept;
    get "/v1/events" events::list;
    get "/v1/events/{id}" events::get;
    post "/v1/subscriptions" subscriptions::create;
    get "/v1/subscriptions" subscriptions::list;
    post "/v1/subscriptions/test" try_event::test;
    get "/v1/subscriptions/{id}" subscriptions::get;
    patch "/v1/subscriptions/{id}" subscriptions::update;
    delete "/v1/subscriptions/{id}" subscriptions::delete;
    post "/v1/subscriptions/{id}/rotate-secret" subscriptions::rotate_secret;
    post "/v1/subscriptions/{id}/ping" subscriptions::ping;
    get "/v1/urls" urls::list;
    get "/v1/urls/{id}" urls::get;
    post "/v1/urls/{id}/enable" urls::enable;
    post "/v1/urls/{id}/freeze" urls::freeze;
    post "/v1/urls/{id}/disable" urls::disable;
    get "/v1/deliveries" deliveries::list;
    get "/v1/deliveries/{id}" deliveries::get;
    post "/v1/keys" keys::create;
    get "/v1/keys" keys::list;
    delete "/v1/keys/{id}" keys::delete;
    get "/v1/tenants" tenants::list;
    get "/v1/tenants/{id}" tenants::get;
    patch "/v1/tenants/{id}" tenants::update;
    post "/v1/deliveries/{id}/replay" replays::replay_delivery;
    post "/v1/urls/{id}/replay" replays::replay_url;
    get "/v1/replays" replays::list;
    get "/v1/replays/{id}" replays::get;
    get "/v1/explain" explain::explain;
    get "/v1/overview" activity::overview;
    get "/v1/attempts" activity::attempts;
    get "/v1/audit" audit::list;
}

/// The only middleware is that of the turns: `response` and `problem` set all headers.
pub fn router(app: Arc<App>) -> Router {
    with_routes(Router::new())
        .route_layer(middleware::from_fn_with_state(Arc::clone(&app), turns::keep_until_sent))
        // Files take no turn: they are public, small and in memory.
        .merge(console::router())
        .fallback(path_not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(app)
}

async fn healthz() -> Response {
    response::ok(&serde_json::json!({ "status": "ok" }))
}

async fn path_not_found() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "This path does not exist; see /openapi.json for those that do.")
}

/// The router adds the `allow` header.
async fn method_not_allowed() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "This path does not support this method; see the `allow` header.",
    )
}
