//! How a host learns whose key a connection is used with.

use std::num::NonZeroU64;

use axum::body::Body;
use axum::http::Request;
use holdfast_api::KeyUse;

use crate::world::World;

async fn holder(world: &World, path: &str, key: &str) -> Option<NonZeroU64> {
    let key_use = KeyUse::default();
    let request = Request::get(path).header("authorization", format!("Bearer {key}"));
    world.send(request.extension(key_use.clone()).body(Body::empty()).unwrap()).await;
    key_use.holder()
}

#[tokio::test]
async fn keys_of_one_tenant_have_one_holder_and_invalid_ones_none() {
    let world = World::new();
    let (admin, ingest, other) =
        (world.key("a", "admin").await, world.key("a", "ingest").await, world.key("b", "admin").await);
    let (one, two) = (world.key("", "operator").await, world.key("b", "operator").await);
    let of_a = holder(&world, "/v1/urls", &admin).await.unwrap();
    // A key whose role does not suffice is valid.
    assert_eq!(holder(&world, "/v1/urls", &ingest).await, Some(of_a));
    let of_b = holder(&world, "/v1/urls", &other).await.unwrap();
    let operators = holder(&world, "/v1/urls?tenant=a", &one).await.unwrap();
    assert_eq!(holder(&world, "/v1/keys", &two).await, Some(operators));
    assert!(of_a != of_b && of_a != operators && of_b != operators);
    for (path, key) in [("/v1/urls", "hf_wrong"), ("/v1/urls", ""), ("/healthz", admin.as_str())] {
        assert_eq!(holder(&world, path, key).await, None, "{path} {key}");
    }
}
