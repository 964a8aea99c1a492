use bytes::Bytes;
use holdfast_core::ports::BodyKey;

use super::Harness;
use super::samples::{at, delivery_key, tenant};

fn key(event: i64) -> BodyKey {
    BodyKey { tenant: tenant(), event_key: delivery_key(event, 1).event_key }
}

pub async fn a_body_is_stored_once(h: &dyn Harness) {
    assert_eq!(h.store().get_body(&key(1)).await.unwrap(), None);
    h.store().put_body(&key(1), Bytes::from_static(b"first"), at(10)).await.unwrap();
    h.store().put_body(&key(1), Bytes::from_static(b"second"), at(20)).await.unwrap();
    assert_eq!(h.store().get_body(&key(1)).await.unwrap().unwrap(), "first");
    assert_eq!(h.store().get_body(&key(2)).await.unwrap(), None);
    assert!(h.store().keep_body(&key(1), at(5)).await.unwrap());
}

pub async fn a_large_body_survives(h: &dyn Harness) {
    let large: Bytes = (0..1_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    h.store().put_body(&key(1), large.clone(), at(10)).await.unwrap();
    h.store().put_body(&key(2), Bytes::new(), at(10)).await.unwrap();
    assert!(h.store().get_body(&key(1)).await.unwrap().unwrap() == large);
    assert_eq!(h.store().get_body(&key(2)).await.unwrap().unwrap(), Bytes::new());
}

pub async fn an_unknown_body_cannot_be_kept(h: &dyn Harness) {
    assert!(!h.store().keep_body(&key(1), at(5)).await.unwrap());
    assert_eq!(h.store().get_body(&key(1)).await.unwrap(), None);
}
