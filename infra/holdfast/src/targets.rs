//! The egress policy, as flags.

use clap::Args;
use holdfast_core::rules::guard::{Cidr, EgressPolicy, Guard, Ports};

use crate::proxy::ProxyArgs;

const ALLOW_TARGET: &str = "--allow-target";
const DENY_TARGET: &str = "--deny-target";

#[derive(Args)]
pub(crate) struct TargetArgs {
    /// A network to allow that is not public, such as 10.0.0.0/8. Can be given more than once.
    #[arg(long, env = "HOLDFAST_ALLOW_TARGET", value_name = "CIDR")]
    allow_target: Vec<String>,
    /// A network to refuse though it is public or allowed, such as your own 203.0.113.0/24. Can be given more than once.
    #[arg(long, env = "HOLDFAST_DENY_TARGET", value_name = "CIDR")]
    deny_target: Vec<String>,
    #[command(flatten)]
    proxy: ProxyArgs,
}

impl TargetArgs {
    /// Allows this machine, http, and any port. A refusal names the flag that allows more.
    pub(crate) fn for_development(&self, faults: &mut Vec<String>) -> EgressPolicy {
        let mut allow = Cidr::list("127.0.0.0/8,::1/128").unwrap_or_default();
        allow.extend(networks(ALLOW_TARGET, &self.allow_target, faults));
        let deny = networks(DENY_TARGET, &self.deny_target, faults);
        let flag = Some(ALLOW_TARGET.to_owned());
        let guard = Guard { allow, deny, ports: Ports::any(), http_allowed: true, flag };
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
        let allow = networks(ALLOW_TARGET, &self.allow_target, faults);
        let deny = networks(DENY_TARGET, &self.deny_target, faults);
        // Subscribers do not start the server, so a refusal does not name the flag.
        let guard = Guard { allow, deny, ports, http_allowed, flag: None };
        EgressPolicy { guard, proxy: self.proxy.parse(faults) }
    }
}

fn networks(flag: &str, lists: &[String], faults: &mut Vec<String>) -> Vec<Cidr> {
    let mut networks = Vec::new();
    for list in lists {
        match Cidr::list(list) {
            Ok(listed) => networks.extend(listed),
            Err(bad) => faults.extend(bad.iter().map(|each| format!("{flag}: {each}"))),
        }
    }
    networks
}
