use super::{Guard, ProxyUrl};

/// What an operator configures for outbound requests. By default only public addresses over https, without a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    pub guard: Guard,
    pub proxy: Option<ProxyUrl>,
}
