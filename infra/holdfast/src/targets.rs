//! The egress policy, as flags.

use clap::Args;
use holdfast_core::rules::guard::{Cidr, EgressPolicy, Guard, Ports};

use crate::proxy::ProxyArgs;

const ALLOW_TARGET: &str = "--allow-target";

#[derive(Args)]
pub(crate) struct TargetArgs {
    /// A network to allow that is not public, such as 10.0.0.0/8. Can be given more than once.
    #[arg(long, value_name = "CIDR")]
    allow_target: Vec<String>,
    #[command(flatten)]
    proxy: ProxyArgs,
}

impl TargetArgs {
    /// Allows this machine, http, and any port. A refusal names the flag that allows more.
    pub(crate) fn for_development(&self, faults: &mut Vec<String>) -> EgressPolicy {
        let mut allow = Cidr::list("127.0.0.0/8,::1/128").unwrap_or_default();
        allow.extend(self.allowed(faults));
        let flag = Some(ALLOW_TARGET.to_owned());
        let guard = Guard { allow, ports: Ports::any(), http_allowed: true, flag };
        EgressPolicy { guard, proxy: self.proxy.parse(faults) }
    }

    /// Allows public targets, and what the flags add.
    pub(crate) fn strict(
        &self,
        http_allowed: bool,
        ports: Option<&str>,
        faults: &mut Vec<String>,
    ) -> EgressPolicy {
        let usual = Ports::usual(http_allowed);
        let ports = match ports.map(Ports::list) {
            None => usual,
            Some(Ok(ports)) => ports,
            Some(Err(bad)) => {
                faults.extend(bad.iter().map(|each| format!("--ports: {each}")));
                usual
            }
        };
        // Subscribers do not start the server, so a refusal does not name the flag.
        let guard = Guard { allow: self.allowed(faults), ports, http_allowed, flag: None };
        EgressPolicy { guard, proxy: self.proxy.parse(faults) }
    }

    fn allowed(&self, faults: &mut Vec<String>) -> Vec<Cidr> {
        let mut allowed = Vec::new();
        for list in &self.allow_target {
            match Cidr::list(list) {
                Ok(networks) => allowed.extend(networks),
                Err(bad) => faults.extend(bad.iter().map(|each| format!("{ALLOW_TARGET}: {each}"))),
            }
        }
        allowed
    }
}
