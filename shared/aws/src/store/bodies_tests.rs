use super::*;

fn key() -> BodyKey {
    BodyKey::new(&"t".into(), &"e".into())
}

/// Bytes that do not compress.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn stored(body: &[u8]) -> HashMap<Key, Item> {
    let parts = parts_of(&key(), body, Timestamp::from_millis(1));
    parts.into_iter().map(|item| (super::super::items::key_of(&item).unwrap(), item)).collect()
}

#[test]
fn bodies_of_every_size_are_read_back() {
    for len in [0, 1, 10, MAX_PART_BYTES - 1, MAX_PART_BYTES, MAX_PART_BYTES + 1, 1_000_000] {
        for body in [vec![b'a'; len], noise(len)] {
            let items = stored(&body);
            assert_eq!(join_parts(&key(), &items).unwrap().unwrap(), body, "{len} bytes");
        }
    }
    assert_eq!(stored(&noise(1_000_000)).len(), 3);
    assert_eq!(stored(&vec![b'a'; 1_000_000]).len(), 1);
}

#[test]
fn a_body_without_one_of_its_parts_is_gone() {
    let body = noise(1_000_000);
    for part in 0..3 {
        let mut items = stored(&body);
        items.remove(&part_key(&key(), part)).unwrap();
        assert_eq!(join_parts(&key(), &items).unwrap(), None);
    }
}
