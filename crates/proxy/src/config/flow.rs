//! Resolves the sidecar's part of the file: `[flow]`, and the roles of services in it.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use curtail_config::{Given, Report, clash, each, instead};
use curtail_flow::metadata::{MemberKey, WorkflowName};
use curtail_flow::{Discipline, Workflow, WorkflowSpec};
use ipnet::IpNet;

use super::model::{Flow, FlowRole, Service};
use super::{check, raw, shards};

/// Resolves the table. `has_roles`: whether at least one service has a role.
pub(super) fn resolve(
    given: Option<&Given<raw::Flow>>,
    has_roles: bool,
    report: &mut Report<'_>,
) -> Option<Flow> {
    let (raw, at) = (given?.get(), given?.span());
    let service = raw.service.as_ref().map_or_else(String::new, |given| given.get().clone());
    match &raw.service {
        None if has_roles => {
            let fix = "add service = \"NAME\", the same for all processes of the service";
            report.missing(&at, "service is missing in [flow]", fix);
        }
        Some(given) if service.is_empty() => {
            report.error(&given.span(), "service is empty", "give the service a name");
        }
        Some(given) if !has_roles => {
            let fix = "add flow = \"ingress\" to the [[service]] of the application";
            report.warn(&given.span(), "no service has a role in [flow]", fix);
        }
        _ => {}
    }
    let by = raw.workflow_by.as_ref();
    let workflow_by = by.and_then(|given| shards::key_of("workflow_by", given, report));
    Some(Flow {
        service,
        discipline: raw.discipline.as_ref().map_or(Discipline::Fifo, |of| discipline(of, report)),
        interval: raw.interval.get(),
        trusts: trusts(raw, report),
        key: key_file(raw, has_roles, report),
        workflow_by,
        workflows: workflows(raw, report),
    })
}

/// The networks that are trusted by default. No client on the Internet has an address in any of
/// these networks.
const INSIDE: [&str; 8] = [
    "127.0.0.0/8",
    "::1/128",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "fc00::/7",
    "169.254.0.0/16",
    "fe80::/10",
];

fn trusts(raw: &raw::Flow, report: &mut Report<'_>) -> Vec<IpNet> {
    let is_edge = raw.edge;
    match &raw.trusts {
        Some(given) if is_edge => {
            let wrong = "trusts is not allowed with edge = true";
            report.error(&given.span(), wrong, "remove trusts, or set edge = false");
            Vec::new()
        }
        Some(given) => given.get().iter().filter_map(|given| network(given, report)).collect(),
        None if is_edge => Vec::new(),
        None => INSIDE.iter().filter_map(|network| network.parse().ok()).collect(),
    }
}

/// Parses a network or a single address.
fn network(given: &Given<String>, report: &mut Report<'_>) -> Option<IpNet> {
    let text = given.get();
    let network: Option<IpNet> =
        text.parse().ok().or_else(|| text.parse().map(|ip: IpAddr| ip.to_canonical().into()).ok());
    if let Some(IpNet::V6(mapped)) = network
        && mapped.addr().to_ipv4_mapped().is_some()
    {
        let wrong = "trusts has a network of IPv4-mapped addresses, which no peer uses";
        report.error(&given.span(), wrong, "write the IPv4 network, like \"10.1.0.0/16\"");
    }
    if network.is_none() {
        let fix = "write it like \"10.1.0.0/16\" or \"10.1.2.3\"";
        report.error(&given.span(), "this entry of trusts is not a network", fix);
    }
    network
}

fn key_file(raw: &raw::Flow, has_roles: bool, report: &mut Report<'_>) -> Option<MemberKey> {
    let given = raw.key_file.as_ref()?;
    if !has_roles {
        let wrong = "a proxy without a role in [flow] relays metadata and does not use the key";
        report.error(&given.span(), wrong, "remove key_file, or add flow = to a [[service]]");
        return None;
    }
    let path = report.folder().join(given.get());
    let fix = "name a file with at least 16 bytes that are hard to guess: openssl rand -hex 32";
    let is_file = std::fs::metadata(&path).map(|of| of.is_file());
    let key = is_file
        .and_then(|is_file| match is_file {
            true => curtail_config::read_bytes(&path),
            false => Err(std::io::Error::other("it is not a regular file")),
        })
        .map(|bytes| MemberKey::new(bytes.trim_ascii()))
        .map_err(|why| format!("key_file {} cannot be read ({why})", path.display()));
    match key {
        Ok(Some(key)) => return Some(key),
        Ok(None) => report.error(&given.span(), "key_file is too short", fix),
        Err(wrong) => report.error(&given.span(), &wrong, fix),
    }
    None
}

fn discipline(given: &Given<String>, report: &mut Report<'_>) -> Discipline {
    Discipline::named(given.get()).unwrap_or_else(|| {
        let fix = instead(given.get(), &Discipline::ALL.map(|(_, name)| name));
        report.error(&given.span(), "discipline is unknown", &fix);
        Discipline::Fifo
    })
}

fn workflows(raw: &raw::Flow, report: &mut Report<'_>) -> Vec<(String, WorkflowSpec)> {
    let mut seen = BTreeSet::new();
    let mut workflow = |(raw, at): (&raw::Workflow, Range<usize>)| {
        let name = check::name(report, "workflow", raw.name.as_ref(), &at);
        if let Some(given) = &raw.name {
            if !seen.insert(name.clone()) {
                let wrong = "an earlier workflow has the same name";
                report.error(&given.span(), wrong, "give each workflow its own name");
            } else if !name.is_empty() && WorkflowName::new(&name).is_none() {
                let wrong = "the percent-encoded name is longer than 96 bytes";
                report.error(&given.span(), wrong, "shorten it, because every request carries it");
            }
        }
        let default = Workflow::default();
        let mut rate = |key: &str, given: &Option<Given<f64>>, least: f64| {
            given.as_ref().and_then(|given| check::rate(report, key, given, least))
        };
        let shares = Workflow {
            weight: rate("weight", &raw.weight, 1e-9).unwrap_or(default.weight),
            guarantee: rate("guarantee", &raw.guarantee, 0.0).unwrap_or(default.guarantee),
            limit: rate("limit", &raw.limit, 1e-9).unwrap_or(default.limit),
            priority: raw.priority.get(),
        };
        if let Some(given) = raw.guarantee.as_ref().filter(|_| shares.guarantee > shares.limit) {
            report.error(
                &given.span(),
                "guarantee is above the limit",
                "raise limit, or lower guarantee",
            );
        }
        (name, WorkflowSpec { shares, deadline: raw.deadline.map(curtail_config::Time::get) })
    };
    each(raw.workflow.as_ref()).into_iter().map(&mut workflow).collect()
}

/// Checks the keys that a service needs for its role.
pub(super) fn role(
    raw: &raw::Service,
    at: &Range<usize>,
    shards: usize,
    report: &mut Report<'_>,
) -> Option<FlowRole> {
    let given = raw.flow.as_ref()?;
    match given.get() {
        FlowRole::Ingress => {
            if raw.slots.is_none() {
                let fix =
                    "add slots = N, the number of requests that the application serves at once";
                report.missing(at, "flow = \"ingress\" requires slots", fix);
            }
            if let Some(throttle) = &raw.throttle {
                let wrong = "throttle and flow = \"ingress\" both order the requests";
                report.error(&throttle.span(), wrong, "remove one of them");
            }
            if shards > 1 {
                let wrong = "flow = \"ingress\" allows one shard only, because a sidecar serves \
                             one process";
                report.error(&given.span(), wrong, "give each shard a sidecar of its own");
            }
        }
        FlowRole::Egress if raw.listen.is_none() => {
            let wrong = "flow = \"egress\" needs an address for the application's calls";
            let fix = "add listen = \"127.0.0.1:PORT\": clients must not reach it at listen.http";
            report.missing(at, wrong, fix);
        }
        FlowRole::Egress => {}
    }
    Some(*given.get())
}

/// Checks that a role has a `[flow]` table and that no two listeners clash. Warns if the listener
/// of an egress service can be reached by anything other than the application.
pub(super) fn services(
    tables: &[(&raw::Service, Range<usize>)],
    services: &[Service],
    has_flow: bool,
    listeners: &[SocketAddr],
    report: &mut Report<'_>,
) {
    let mut taken = listeners.to_vec();
    for ((raw, _), service) in tables.iter().zip(services) {
        if let Some(given) = raw.flow.as_ref().filter(|_| !has_flow) {
            let fix = "add [flow] with service = \"NAME\"";
            report.error(&given.span(), "flow is set, but the file has no [flow]", fix);
        }
        let (Some(given), Some(listen)) = (&raw.listen, service.listen) else { continue };
        if taken.iter().any(|&other| clash(listen, other)) {
            let fix = "give each listener its own port";
            report.error(
                &given.span(),
                "another part of the proxy already listens on this address",
                fix,
            );
        }
        taken.push(listen);
        if service.flow == Some(FlowRole::Egress) && !listen.ip().is_loopback() {
            let wrong = "this address is not on loopback: any client that reaches it can call as \
                         the application";
            report.warn(&given.span(), wrong, "write 127.0.0.1:PORT, or protect this address");
        }
    }
}
