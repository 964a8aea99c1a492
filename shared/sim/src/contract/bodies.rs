use bytes::Bytes;
use holdfast_core::ports::BodyKey;

use super::Harness;
use super::samples::{at, delivery_key, tenant};

fn key(event: i64) -> BodyKey {
    BodyKey { tenant: tenant(), event_key: delivery_key(event, 1).event_key }
}

async fn body(h: &dyn Harness, event: i64) -> Option<Bytes> {
    h.store().get_bodies(&[key(event)]).await.unwrap().remove(0)
}

pub async fn a_body_can_be_stored_again(h: &dyn Harness) {
    assert_eq!(body(h, 1).await, None);
    for remove_at in [at(10), at(20)] {
        h.store().put_bodies(vec![(key(1), Bytes::from_static(b"it"))], remove_at).await.unwrap();
    }
    assert_eq!(body(h, 1).await.unwrap(), "it");
    assert_eq!(body(h, 2).await, None);
    assert!(h.store().keep_body(&key(1), at(5)).await.unwrap());
}

pub async fn many_bodies_are_stored_and_read_together(h: &dyn Harness) {
    let text = |n: i64| Bytes::from(format!("body {n}"));
    h.store().put_bodies((0..150).map(|n| (key(n), text(n))).collect(), at(10)).await.unwrap();
    let keys: Vec<BodyKey> = (0..160).rev().map(key).collect();
    let found = h.store().get_bodies(&keys).await.unwrap();
    let expected: Vec<_> = (0..160).rev().map(|n| (n < 150).then(|| text(n))).collect();
    assert_eq!(found, expected);
    assert!(h.store().get_bodies(&[]).await.unwrap().is_empty());
}

pub async fn a_large_body_survives(h: &dyn Harness) {
    let large: Bytes = (0..1_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    h.store().put_bodies(vec![(key(1), large.clone()), (key(2), Bytes::new())], at(10)).await.unwrap();
    assert!(body(h, 1).await.unwrap() == large);
    assert_eq!(body(h, 2).await.unwrap(), Bytes::new());
    assert!(h.store().keep_body(&key(1), at(50)).await.unwrap());
    assert!(body(h, 1).await.unwrap() == large);
}

pub async fn a_body_can_be_removed(h: &dyn Harness) {
    let large: Bytes = (0..1_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let bodies = [(1, large.clone()), (2, Bytes::from_static(b"it"))];
    h.store().put_bodies(bodies.map(|(n, body)| (key(n), body)).to_vec(), at(10)).await.unwrap();
    for _ in 0..2 {
        h.store().remove_body(&key(1)).await.unwrap();
    }
    assert_eq!(body(h, 1).await, None);
    assert!(!h.store().keep_body(&key(1), at(50)).await.unwrap());
    assert_eq!(body(h, 2).await.unwrap(), "it");
    h.store().put_bodies(vec![(key(1), large.clone())], at(10)).await.unwrap();
    assert!(body(h, 1).await.unwrap() == large, "it can be stored again");
}

pub async fn an_unknown_body_cannot_be_kept(h: &dyn Harness) {
    assert!(!h.store().keep_body(&key(1), at(5)).await.unwrap());
    assert_eq!(body(h, 1).await, None);
}
