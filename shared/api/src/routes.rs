//! Every call of the API, in one table. The router is made of it, and the document is checked against it.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing;

use crate::{
    App, Problem, activity, answer, deliveries, events, keys, openapi, ping, replays, subscriptions, urls,
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
    get "/v1/events/{id}" events::view;
    post "/v1/subscriptions" subscriptions::create;
    get "/v1/subscriptions" subscriptions::list;
    get "/v1/subscriptions/{id}" subscriptions::view;
    patch "/v1/subscriptions/{id}" subscriptions::update;
    delete "/v1/subscriptions/{id}" subscriptions::delete;
    post "/v1/subscriptions/{id}/rotate-secret" subscriptions::rotate_secret;
    post "/v1/subscriptions/{id}/ping" ping::ping;
    get "/v1/urls" urls::list;
    get "/v1/urls/{id}" urls::view;
    post "/v1/urls/{id}/enable" urls::enable;
    post "/v1/urls/{id}/freeze" urls::freeze;
    post "/v1/urls/{id}/disable" urls::disable;
    get "/v1/deliveries" deliveries::list;
    get "/v1/deliveries/{id}" deliveries::view;
    post "/v1/keys" keys::create;
    get "/v1/keys" keys::list;
    delete "/v1/keys/{id}" keys::delete;
    post "/v1/deliveries/{id}/replay" replays::of_delivery;
    post "/v1/urls/{id}/replay" replays::of_url;
    get "/v1/replays/{id}" replays::view;
    get "/v1/overview" activity::overview;
    get "/v1/attempts" activity::attempts;
}

/// There is no middleware: each answer is made whole in one place, `answer` or `problem`.
pub fn router(app: Arc<App>) -> Router {
    with_routes(Router::new())
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .with_state(app)
}

async fn healthz() -> Response {
    #[derive(serde::Serialize)]
    struct Alive {
        status: &'static str,
    }
    answer::json(StatusCode::OK, &Alive { status: "ok" })
}

async fn no_such_path() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "There is nothing at this path.")
}

/// The router adds the `allow` header.
async fn no_such_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "This path does not take this method; see the `allow` header.",
    )
}
