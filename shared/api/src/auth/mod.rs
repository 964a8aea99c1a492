//! Authentication, roles and tenants.
//!
//! Architecture Invariant: a handler gets a tenant only from one of the extractors here, so that no tenant's data is touched before
//! the key, its role and its right to name that tenant were checked.

mod built_in;
mod cache;
mod caller;
mod extract;
mod key_use;
mod keys;
mod list_scope;
mod path_tenant;

pub use built_in::{BuiltIn, HashedKey};
#[cfg(any(test, fuzzing))]
pub(crate) use caller::{bearer, tenant_param};
pub(crate) use extract::{Admin, KeyCreator, Operator, Producer, Viewer};
pub(crate) use key_use::KeyHolder;
pub use key_use::KeyUse;
pub use keys::Keys;
pub(crate) use list_scope::{ListItem, ListPage, ListScope, no_tenant};
pub(crate) use path_tenant::{ManagedTenant, ReadableTenant};
