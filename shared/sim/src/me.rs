use std::sync::LazyLock;

use holdfast_core::engine::Actor;
use holdfast_core::rules::access::Role;

static ME: LazyLock<Actor> = LazyLock::new(|| Actor::new("me", Role::Operator));

/// Who changes things in tests.
#[must_use]
pub fn me() -> &'static Actor {
    &ME
}
