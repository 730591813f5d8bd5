//! Resolves the limits on connections to replicas and on their responses, and the outcomes of
//! responses.

use std::collections::BTreeMap;
use std::time::Duration;

use curtail_config::{Given, Report};
use curtail_http::grpc::CODES;
use curtail_http::h1;
use curtail_kernel::{Fault, Limits, Outcome, OutcomeTable};
use curtail_runtime::http::Settings;

use super::raw;
use super::statuses::Statuses;

/// Resolves the limits on connections to replicas and on their responses.
pub(super) fn settings(raw: &raw::Service, limits: &Limits) -> Settings {
    let default = Settings::default();
    let [timeout, cancel] = [limits.timeout_ns, limits.cancel_timeout_ns].map(Duration::from_nanos);
    Settings {
        limits: h1::Limits {
            head_bytes: raw.max_response_header_bytes.get(),
            headers: raw.max_response_headers.get() as usize,
            ..default.limits
        },
        connect_timeout: raw.connect_timeout.get(),
        idle: raw.idle_connections.get() as usize,
        idle_timeout: raw.idle_timeout.get(),
        grpc: is_grpc(raw),
        response_buffer: raw.response_buffer.get(),
        read_timeout: raw
            .read_timeout
            .map_or_else(|| timeout.max(cancel), curtail_config::Time::get),
        unwanted_timeout: cancel,
        ..default
    }
}

/// Returns whether the replicas use gRPC.
pub(super) fn is_grpc(raw: &raw::Service) -> bool {
    *raw.protocol.get() == raw::Protocol::Grpc
}

/// Resolves the outcomes of responses: the default table with the changes that the file makes.
pub(super) fn outcomes(raw: &raw::Service, report: &mut Report<'_>) -> OutcomeTable {
    let mut table = OutcomeTable::default();
    let Some(given) = raw.outcome.as_ref().map(Given::get) else { return table };
    let mut named: BTreeMap<String, &str> = BTreeMap::new();
    for (key, list, outcome) in [
        ("good", &given.good, Outcome::Good),
        ("request", &given.request, Outcome::Request),
        ("refused", &given.refused, Outcome::Refused),
        ("failed", &given.failed, Outcome::Failed(Fault::Status)),
    ] {
        for statuses in list.iter().flatten() {
            let names: Vec<String> = match statuses.get() {
                Statuses::Http(range) => {
                    table.set(range.clone(), outcome);
                    range.clone().map(|status| status.to_string()).collect()
                }
                Statuses::Grpc(code) => {
                    table.set_grpc(*code, outcome);
                    if !is_grpc(raw) {
                        let wrong = format!("outcome.{key} contains a code of gRPC");
                        let fix = "set protocol = \"grpc\", or use a status of HTTP";
                        report.error(&statuses.span(), &wrong, fix);
                    }
                    vec![CODES[usize::from(*code)].to_owned()]
                }
            };
            let twice = names.iter().find_map(|name| Some((name, *named.get(name)?)));
            if let Some((name, other)) = twice.filter(|(_, other)| *other != key) {
                let wrong = format!("outcome.{key} contains {name}, and so does outcome.{other}");
                report.error(&statuses.span(), &wrong, "remove it from one of them");
            }
            named.extend(names.into_iter().map(|name| (name, key)));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use curtail_kernel::{Fault, Outcome};

    use crate::config::model::Cancel;
    use crate::config::parse;

    #[test]
    fn listed_statuses_change_outcome_and_the_others_keep_theirs() {
        let text = r#"
            [[service]]
            name = "a"
            policy = "random"
            outcome = { good = [404], refused = ["520-529", 403], failed = ["3xx"], request = [503] }
            [[service.shard]]
            name = "0"
            replicas = ["127.0.0.1:9001"]
        "#;
        let config = parse("test", text).unwrap_or_else(|errors| panic!("{errors}"));
        let status = |status| config.services[0].outcomes.status(status);
        let failed = Outcome::Failed(Fault::Status);
        for (code, outcome) in [
            (404, Outcome::Good),
            (403, Outcome::Refused),
            (520, Outcome::Refused),
            (529, Outcome::Refused),
            (519, failed),
            (302, failed),
            (503, Outcome::Request),
            (429, Outcome::Refused),
            (400, Outcome::Request),
            (200, Outcome::Good),
        ] {
            assert_eq!(status(code), outcome, "{code}");
        }
    }

    fn service(lines: &str) -> String {
        format!(
            "[[service]]\nname = \"a\"\n{lines}\n[[service.shard]]\nname = \"0\"\n\
             replicas = [\"127.0.0.1:9001\"]\n"
        )
    }

    #[test]
    fn a_stream_may_pause_for_the_whole_timeout_unless_the_file_has_another_limit() {
        for (lines, seconds) in
            [("", 10), ("timeout = \"1h\"", 3_600), ("timeout = \"1h\"\nread_timeout = \"3s\"", 3)]
        {
            let config = parse("test", &service(lines)).expect("valid");
            let settings = config.services[0].settings;
            assert_eq!(settings.read_timeout.as_secs(), seconds, "{lines}");
        }
    }

    #[test]
    fn replicas_of_grpc_stop_what_is_cancelled_unless_the_file_denies_it() {
        for (lines, cancel) in [
            ("protocol = \"h2\"", Cancel::None),
            ("protocol = \"grpc\"", Cancel::Reset),
            ("protocol = \"grpc\"\ncancel = \"none\"", Cancel::None),
        ] {
            let config = parse("test", &service(lines)).expect("valid");
            assert_eq!(config.services[0].cancel, cancel, "{lines}");
        }
    }

    #[test]
    fn codes_of_grpc_have_names_and_require_the_protocol() {
        let text = |protocol: &str, codes: &str| {
            format!(
                "[[service]]\nname = \"a\"\npolicy = \"random\"\nprotocol = \"{protocol}\"\n\
                 outcome = {{ failed = [\"DATA_LOSS\"], {codes} }}\n\
                 [[service.shard]]\nname = \"0\"\nreplicas = [\"127.0.0.1:9001\"]\n"
            )
        };
        let good = parse("test", &text("grpc", "request = [\"UNAVAILABLE\"]"));
        let outcomes = &good.unwrap_or_else(|errors| panic!("{errors}")).services[0].outcomes;
        let found = [15, 14, 8].map(|code| outcomes.grpc(code));
        assert_eq!(found, [Outcome::Failed(Fault::Status), Outcome::Request, Outcome::Refused]);
        for (protocol, codes, wrong) in [
            ("h2", "", "protocol = \"grpc\""),
            ("grpc", "good = [\"DATA_LOSS\"]", "and so does"),
            ("grpc", "good = [\"data_loss\"]", "UNAVAILABLE"),
        ] {
            let errors = parse("test", &text(protocol, codes)).expect_err("an error").to_string();
            assert!(errors.contains(wrong), "{errors}");
        }
    }
}
