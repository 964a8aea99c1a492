//! Nobody acts without a valid key.

use anyhow::{Context, Result, ensure};
use reqwest::Method;

use crate::scene::Scene;

pub(super) async fn run(scene: Scene<'_>) -> Result<()> {
    let host = scene.host;
    let alive = host.send(Method::GET, "/healthz", None, Vec::new()).await?;
    ensure!(alive.status == 200, "without a key: {alive:?}");
    let (delivery, subscription) = ("/v1/deliveries/dlv_x", "/v1/subscriptions/sub_x");
    let routes = [
        (Method::POST, "/v1/events"),
        (Method::GET, "/v1/events/x"),
        (Method::GET, "/v1/subscriptions"),
        (Method::POST, "/v1/subscriptions"),
        (Method::GET, subscription),
        (Method::DELETE, subscription),
        (Method::GET, "/v1/urls"),
        (Method::GET, "/v1/urls/url_x"),
        (Method::POST, "/v1/urls/url_x/enable"),
        (Method::POST, "/v1/urls/url_x/freeze"),
        (Method::POST, "/v1/urls/url_x/disable"),
        (Method::GET, "/v1/deliveries"),
        (Method::GET, delivery),
        (Method::POST, "/v1/deliveries/dlv_x/replay"),
    ];
    let longer = format!("{}x", host.key);
    let shorter = &host.key[..host.key.len() - 1];
    for (method, path) in routes {
        for key in [None, Some("hf_wrong"), Some(longer.as_str()), Some(shorter)] {
            let answer = host.send(method.clone(), path, key, b"{}".to_vec()).await?;
            let what = || format!("{method} {path} with the key {key:?}");
            let problem = answer.expect(401).with_context(what)?;
            ensure!(answer.content_type == "application/problem+json", "{}: {answer:?}", what());
            ensure!(
                problem["detail"].as_str().is_some_and(|text| text.contains("key")),
                "{}: {answer:?}",
                what()
            );
        }
    }
    Ok(())
}
