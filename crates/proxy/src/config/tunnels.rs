//! Resolves the limits on connections that switch to another protocol.

use std::time::Duration;

use curtail_config::{Given, Report, each};

use super::{check, raw};

/// The limits on tunnels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tunnels {
    /// The protocols to which clients may switch, in lower case.
    pub(crate) protocols: Vec<String>,
    /// Maximum number of concurrent tunnels.
    pub(crate) max: usize,
    /// How long a tunnel may carry no bytes.
    pub(crate) idle_timeout: Duration,
}

/// Resolves the limits on tunnels.
pub(super) fn resolve(raw: &raw::Service, report: &mut Report<'_>) -> Tunnels {
    let default = raw::Tunnels::default();
    let is_used = each(raw.route.as_ref()).iter().any(|(route, _)| route.tunnel);
    if let (Some(given), false) = (&raw.tunnels, is_used) {
        let wrong = "tunnels is set, but no route of the service has tunnel = true";
        report.warn(&given.span(), wrong, "add it to a route, or remove tunnels");
    }
    let raw = raw.tunnels.as_ref().map_or(&default, Given::get);
    let protocols = match &raw.protocols {
        None => vec!["websocket".to_owned()],
        Some(given) => given.iter().map(|protocol| name(protocol, report)).collect(),
    };
    Tunnels { protocols, max: raw.max.get() as usize, idle_timeout: raw.idle_timeout.get() }
}

fn name(given: &Given<String>, report: &mut Report<'_>) -> String {
    let name = given.get().to_ascii_lowercase();
    if !name.split('/').all(check::is_token) {
        let fix = "use a name like \"websocket\"";
        report.error(&given.span(), "protocols contains no name of a protocol", fix);
    }
    // It would carry requests past the routes (RFC 9113 has removed it).
    if name == "h2c" {
        let fix = "remove it: clients use HTTP/2 with prior knowledge, or by TLS";
        report.error(&given.span(), "protocols contains h2c", fix);
    }
    name
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::config::parse;

    fn read(line: &str) -> Result<super::Tunnels, String> {
        let text = format!(
            "[[service]]\nname = \"a\"\npolicy = \"random\"\n{line}\n[[service.shard]]\n\
             name = \"0\"\nreplicas = [\"127.0.0.1:9001\"]\n"
        );
        let config = parse("test", &text).map_err(|errors| errors.to_string())?;
        Ok(config.services[0].tunnels.clone())
    }

    #[test]
    fn websockets_are_the_default_and_other_protocols_have_names() {
        let default = read("").expect("valid");
        assert_eq!((default.protocols.concat().as_str(), default.max), ("websocket", 1_024));
        let own = "tunnels = { protocols = [\"SPDY/3.1\"], max = 7, idle_timeout = \"5s\" }";
        let own = read(own).expect("valid");
        assert_eq!((own.protocols.concat().as_str(), own.max), ("spdy/3.1", 7));
        assert_eq!(own.idle_timeout, Duration::from_secs(5));
        for (bad, wrong) in [
            ("tunnels = true", "{ protocols, max, idle_timeout }"),
            ("tunnels = { protocols = [\"h2c\"] }", "h2c"),
            ("tunnels = { protocols = [\"a b\"] }", "no name"),
            ("tunnels = { max = 0 }", "use 1 to"),
        ] {
            let errors = read(bad).expect_err(bad);
            assert!(errors.contains(wrong), "{errors}");
        }
    }
}
