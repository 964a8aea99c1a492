use super::{Guard, ProxyUrl};

/// All that an operator says about the way out to receivers. The default is strict, and straight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    pub guard: Guard,
    pub proxy: Option<ProxyUrl>,
}
