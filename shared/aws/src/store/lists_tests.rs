use super::*;

fn query(from: Option<&str>, to: Option<&str>, order: Order) -> IndexQuery {
    let all = IndexQuery::of(ListIndex::ByTenant, "list#t", 10);
    let between = all.between(from.map(str::to_owned), to.map(str::to_owned));
    IndexQuery { order, ..between }
}

fn place(listed: &str, sort: &str) -> Place {
    Place { listed: listed.to_owned(), key: Key::new("p".to_owned(), sort) }
}

#[test]
fn bounds_close_in_on_the_last_page() {
    let cases = [
        (None, None, None, Order::Ascending, Some((None, None))),
        (Some("b"), Some("f"), None, Order::Ascending, Some((Some("b"), Some("f")))),
        (Some("b"), Some("f"), Some("c"), Order::Ascending, Some((Some("c"), Some("f")))),
        (Some("b"), Some("f"), Some("c"), Order::Descending, Some((Some("b"), Some("c")))),
        (None, None, Some("c"), Order::Descending, Some((None, Some("c")))),
        (Some(""), None, None, Order::Ascending, Some((None, None))),
        (None, Some(""), None, Order::Ascending, None),
        (Some("f"), Some("b"), None, Order::Ascending, None),
        (Some("b"), Some("f"), Some("g"), Order::Ascending, None),
    ];
    for (from, to, after, order, expected) in cases {
        let query = query(from, to, order);
        let range = Range { query: &query, after: after.map(|after| place(after, "s")) };
        assert_eq!(range.bounds(), expected, "{from:?} {to:?} {after:?} {order:?}");
    }
}

#[test]
fn a_sort_key_that_may_be_incomplete_is_left_for_later() {
    let query = query(None, None, Order::Ascending);
    let range = Range { query: &query, after: Some(place("a", "1")) };
    // In DynamoDB's order, which is not ours where sort keys are equal.
    let found = [place("a", "2"), place("a", "1"), place("b", "2"), place("b", "1")];
    assert_eq!(complete(&found, &range, false), [place("a", "2")]);
    assert_eq!(complete(&found, &range, true), [place("a", "2"), place("b", "1"), place("b", "2")]);
}

#[test]
fn cursors_read_back() {
    let place = place("a \u{ffff}\0", "s#\"");
    assert_eq!(Place::read(&place.cursor()).unwrap(), place);
    assert!(Place::read("?").is_err());
}
