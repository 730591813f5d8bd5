//! Proxies that are compared with each other. All are started in the same way.

use anyhow::Result;

use crate::lab::{Lab, Server};

/// A proxy, and how it starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proxy {
    pub(crate) name: &'static str,
    /// The requirement without which the proxy is left out of a comparison.
    pub(crate) need: &'static str,
    /// The command. The path of the configuration follows it.
    command: &'static str,
    config: &'static str,
}

pub(crate) const CURTAIL: Proxy = Proxy {
    name: "curtail",
    need: "program:sh",
    command: "@curtail proxy --tied-to-stdin --config",
    config: "curtail.toml",
};

pub(crate) const HAPROXY: Proxy = Proxy {
    name: "haproxy",
    need: "apt:haproxy",
    command: "haproxy -db -q -f",
    config: "haproxy.cfg",
};

pub(crate) const ENVOY: Proxy = Proxy {
    name: "envoy",
    need: "pip:envoy",
    command: "@envoy --concurrency 1 --disable-hot-restart -l error -c",
    config: "envoy.yaml",
};

/// Curtail inside Envoy.
pub(crate) const MODULE: Proxy = Proxy {
    name: "module",
    need: "pip:envoy",
    command: "sh lab/accept/files/module.sh @curtail @module @envoy",
    config: "curtail.toml",
};

pub(crate) const NGINX: Proxy = Proxy {
    name: "nginx",
    need: "apt:nginx",
    command: "nginx -p {folder} -e stderr -c",
    config: "nginx.conf",
};

impl Proxy {
    /// Starts the proxy in front of these servers. `pin` is a command that runs it on a processor,
    /// or empty. `kind` is the start of the name of its configuration, in which `values` are
    /// replaced, unless the line or the command line sets others.
    pub(crate) fn start(
        &self,
        lab: &Lab<'_>,
        pin: &str,
        kind: &str,
        servers: &[&Server],
        values: &[(&str, &str)],
    ) -> Result<Server> {
        let mut texts: Vec<(String, String)> = Vec::new();
        for (name, value) in values {
            texts.push(((*name).to_owned(), lab.var(name, value, value)));
        }
        for (at, server) in servers.iter().enumerate() {
            texts.push((format!("server{at}"), server.address.to_string()));
            texts.push((format!("port{at}"), server.address.port().to_string()));
        }
        let texts: Vec<(&str, &dyn ToString)> =
            texts.iter().map(|(name, value)| (name.as_str(), value as &dyn ToString)).collect();
        let plan = lab.server(format!("{pin} {}", self.command))?;
        plan.config(&format!("{kind}{}", self.config), &texts)?.listening()
    }
}
