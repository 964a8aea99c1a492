//! Who asks, and for whose things.
//!
//! Architecture Invariant: a handler gets a tenant only from one of the extractors here, so that nothing of a tenant is touched
//! before the key was checked, its role, and whether it may name that tenant.

mod across;
mod built_in;
mod cache;
mod caller;
mod extract;
mod keys;

pub(crate) use across::{Across, Owned};
pub use built_in::{BuiltIn, HashedKey};
pub(crate) use extract::{Admin, KeyMaker, Operator, Producer};
pub use keys::Keys;
