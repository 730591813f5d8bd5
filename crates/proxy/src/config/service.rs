//! Resolves [`raw::Service`] to [`Service`].

use std::ops::Range;
use std::time::Duration;

use curtail_config::{AutoOr, Given, OrFalse, Report, closest, each};
use curtail_kernel::{Limits, Policy, PolicyError, Tuning};
use curtail_runtime::http::{Commit, Health, Probe};

use super::model::{Cancel, FlowRole, Route, Service, Throttle};
use super::{check, flow, raw, shards, tls, tunnels, upstream};
use crate::cost::Cost;

/// Default policies: one for services that set `slots`, and one for those that do not. These
/// policies need no tuning. `cancel` determines which version of them is used.
const POLICY: Policy = Policy::RESCUE;
const POLICY_WITHOUT_SLOTS: Policy = Policy::RESCUE_WITHOUT_SLOTS;

/// Resolves one service. `at` is the span of the service's table.
pub(super) fn resolve(raw: &raw::Service, at: &Range<usize>, report: &mut Report<'_>) -> Service {
    let name = check::name(report, "service", raw.name.as_ref(), at);
    // The specification of gRPC says that a server learns of a cancellation.
    let usual = if upstream::is_grpc(raw) { Cancel::Reset } else { Cancel::None };
    let cancel = raw.cancel.as_ref().map_or(usual, |given| *given.get());
    let policy = policy(raw, cancel, report);
    let draft = Draft { raw, at, policy, cancel };
    let shards::Resolved { servers, shards } = shards::resolve(raw, at, report);
    let routes = draft.routes(report);
    let idempotent_methods = idempotent_methods(raw, report);
    let may_retry = shards.iter().any(|shard| shard.replicas.len() > 1)
        && routes.iter().any(|route| route.may_repeat(&idempotent_methods));
    let limits = draft.limits(may_retry, report);
    draft.check_timeouts(&limits, report);
    let protocol = (*raw.protocol.get()).into();
    Service {
        throttle: throttle(raw, servers.len(), report),
        flow: flow::role(raw, at, shards.len(), report),
        listen: raw.listen.as_ref().map(|given| given.get().get()),
        name,
        policy,
        slots: raw.slots.as_ref().map(|given| given.get().get()),
        cancel,
        timeout: Duration::from_nanos(limits.timeout_ns),
        limits,
        settings: upstream::settings(raw, &limits),
        protocol,
        tls: tls::upstream(raw, protocol, report),
        outcomes: upstream::outcomes(raw, report),
        health: health(raw, report),
        routes,
        shard_by: shards::shard_by(raw, shards.len(), at, report),
        cost_hint: draft.cost_hint(report),
        idempotent_methods,
        // A key of [listen], which is resolved separately.
        request_id: false,
        debug_headers: raw.debug_headers,
        max_request_body: raw.max_request_body.get(),
        replay_bytes: raw.replay_bytes.get() as u64,
        probe: draft.probe(report),
        tunnels: tunnels::resolve(raw, report),
        servers,
        shards,
    }
}

/// Resolves how many concurrent requests the stage in front of a replica sends to it.
fn throttle(raw: &raw::Service, servers: usize, report: &mut Report<'_>) -> Option<Throttle> {
    let given = raw.throttle.as_ref()?;
    if servers > 1 {
        let wrong = "throttle requires a single replica, and this service has several";
        report.error(&given.span(), wrong, "run a proxy with throttle in front of each of them");
    }
    Some(match *given.get() {
        AutoOr::Auto => Throttle::Auto,
        AutoOr::Number(slots) => Throttle::Slots(slots),
    })
}

fn policy(raw: &raw::Service, cancel: Cancel, report: &mut Report<'_>) -> Policy {
    let fallback = Policy::LEAST_OUTSTANDING;
    let Some(given) = &raw.policy else {
        return if raw.slots.is_some() { POLICY } else { POLICY_WITHOUT_SLOTS };
    };
    let at = given.span();
    let policy = match Policy::parse(given.get(), None) {
        Ok(policy) => policy,
        Err(why) => {
            no_policy(given, &why, report);
            return fallback;
        }
    };
    if let Some(why) = policy.simulator_only() {
        let fix = format!("use laedge here, and {policy} in curtail sim");
        report.error(&at, &format!("policy {why}"), &fix);
        return fallback;
    }
    if policy.needs_cancellation() && cancel == Cancel::None {
        let wrong = "policy cancels copies, but with cancel = \"none\" the replicas continue to \
                     work on them";
        let other = policy.hedge().map(|hedge| hedge.of.builds.without_cancellation);
        let other = other.unwrap_or_default();
        let fix = format!(
            "set cancel = \"reset\" if the replicas stop when a connection is reset, or use {other}"
        );
        report.error(&at, wrong, &fix);
    }
    if policy.has_priorities() {
        if !raw.stage {
            let wrong = "policy sends every query twice, which is safe only if the replicas serve \
                         requests with \"priority: u=7\" last";
            let fix = "run a stage in front of them and set stage = true, or use rescue";
            report.error(&at, wrong, fix);
        }
        if policy.pulls() {
            let wrong = "policy queues duplicates at the replicas, where they would fill a gate \
                         of slots or a bound";
            report.error(&at, wrong, &format!("remove {}", policy.gate()));
        }
    }
    let is_unsafe = !policy.is_budgeted() && !policy.has_priorities();
    if is_unsafe && !raw.unsafe_baseline {
        let wrong = "policy sends two or more copies of every query, without a budget";
        let fix = "use delayed:D or rescue, or add unsafe_baseline = true to measure it";
        report.error(&at, wrong, fix);
    }
    slots_fit(raw, &at, policy, report);
    let slots = raw.slots.as_ref().map_or(1, |given| given.get().get());
    if let Some(n) = policy.bound()
        && n < slots
    {
        let wrong = format!("policy has a bound of {n}, below the replicas' {slots} slots");
        report.error(&at, &wrong, &format!("use a bound of at least {slots}, or fewer slots"));
    }
    policy
}

/// Checks `slots`. Policies that keep queries in the proxy need the number of slots, and other
/// policies do not use it.
fn slots_fit(raw: &raw::Service, at: &Range<usize>, policy: Policy, report: &mut Report<'_>) {
    let is_ingress = raw.flow.as_ref().is_some_and(|given| *given.get() == FlowRole::Ingress);
    match &raw.slots {
        None if policy.pulls() => {
            let wrong = "policy keeps queries in the proxy until a replica has a free slot, so it needs the number of slots";
            let add = "add slots = N, the number of queries that a replica serves at once";
            let without = match policy.rescues() {
                None if !policy.hedges() => ", or use \"least-outstanding\", which needs none",
                Some(_) => ", or use \"rescue+least-outstanding\", which needs none",
                None => "",
            };
            report.missing(at, wrong, &format!("{add}{without}"));
        }
        // A sidecar uses the slots for admission, regardless of the policy.
        Some(given) if !policy.pulls() && !is_ingress => {
            let of = "policies that keep queries in the proxy";
            let wrong = format!("slots is for {of}, and {policy} ignores it");
            report.warn(&given.span(), &wrong, "remove it, or use rescue");
        }
        _ => {}
    }
}

fn no_policy(given: &Given<String>, error: &PolicyError, report: &mut Report<'_>) {
    let at = given.span();
    if let PolicyError::Argument { why, .. } = error {
        let (wrong, fix) = why.split_once("; ").unwrap_or((why, "use another"));
        return report.error(&at, &format!("policy is invalid: {wrong}"), fix);
    }
    let forms = Policy::live_forms();
    // A name that lacks its argument, such as `delayed`.
    let bare = |form: &&&str| form.split_once(':').is_some_and(|(name, _)| name == given.get());
    if let Some(form) = forms.iter().find(bare)
        && let Some((name, _)) = form.split_once(":D")
    {
        let fix = format!(
            "write \"{}\"",
            form.replace("[:cc]", "").replace(":D", ":20ms").replace(":Q", ":0.5")
        );
        return report.error(&at, &format!("policy {name} needs a delay"), &fix);
    }
    let all = || format!("use one of {}, {}", forms.join(", "), Policy::PARTS);
    let (wrong, fix) = match given.get().as_str() {
        "o1" | "idealized" => {
            let wrong = "policy needs information that a proxy does not have, so only the simulator runs it";
            (wrong, all())
        }
        auto if auto.starts_with("probabilistic:auto") => {
            let wrong = "policy must be trained first; curtail sim trains it and prints the \
                         probabilistic:D:Q to use";
            (wrong, all())
        }
        unknown => {
            let suggested = closest(unknown, &forms).map(|close| format!("did you mean {close}?"));
            ("policy is unknown", suggested.unwrap_or_else(all))
        }
    };
    report.error(&at, wrong, &fix);
}

/// A service whose policy is known.
struct Draft<'r> {
    raw: &'r raw::Service,
    /// The span of the service's table.
    at: &'r Range<usize>,
    policy: Policy,
    cancel: Cancel,
}

impl Draft<'_> {
    /// Resolves the limits of the service's cells. `may_retry` states whether there is a replica for
    /// a retry of some request.
    fn limits(&self, may_retry: bool, report: &mut Report<'_>) -> Limits {
        let (raw, default) = (self.raw, Limits::default());
        let retry = "0.1 is one retry per ten queries";
        let retry_budget = check::fraction(report, "retry_budget", &raw.retry_budget, retry);
        let hedge = "0.2 is one duplicate per five queries";
        let hedge_budget = check::fraction(report, "hedge_budget", &raw.hedge_budget, hedge);
        let rescue = "0.02 is one lost rescue per fifty queries";
        let rescue_budget = check::fraction(report, "rescue_budget", &raw.rescue_budget, rescue);
        let half = "0.5 lets half of the replicas be ejected";
        let max_ejected = check::fraction(report, "max_ejected", &raw.max_ejected, half);
        self.check_budgets(hedge_budget, rescue_budget, report);
        let (ejection, longest) = (raw.ejection_time.get().ns(), raw.max_ejection_time.get().ns());
        if let Some(at) = raw.max_ejection_time.span().or(raw.ejection_time.span())
            && ejection > longest
        {
            let wrong = "ejection_time is longer than max_ejection_time";
            report.warn(&at, wrong, "set max_ejection_time to at least ejection_time");
        }
        let clients = raw.clients.get().get();
        if let Some(at) = raw.clients.span().filter(|_| clients > 1) {
            self.warn_unused(&at, "clients", "c3", self.policy.needs().clients, report);
        }
        let whole = raw.timeout.ns();
        // Half of the time is left for a retry. If there is none, an earlier timeout only causes
        // errors.
        let usual = if may_retry && retry_budget > 0.0 { whole - whole / 2 } else { whole };
        let attempt = raw.attempt_timeout.as_ref().map_or(usual, |given| given.get().ns());
        let silent = raw.cancel_timeout.get().ns();
        let is_usual = raw.cancel_timeout.span().is_none() && self.cancel == Cancel::None;
        Limits {
            max_outstanding: raw.max_outstanding.get(),
            queue: raw.queue.get(),
            timeout_ns: whole,
            attempt_timeout_ns: attempt,
            cancel_timeout_ns: if is_usual { silent.max(attempt) } else { silent },
            cancel: self.cancel == Cancel::Reset,
            retry_budget,
            // If the budget is zero, there are no tokens at the start either.
            retry_reserve: if retry_budget > 0.0 { default.retry_reserve } else { 0 },
            hedge_budget,
            hedge_burst: if hedge_budget > 0.0 { default.hedge_burst } else { 0 },
            rescue_budget,
            eject_after: raw.eject_after.get(),
            eject_after_refusals: raw.eject_after_refusals.get(),
            retry_after_max_ns: raw.max_retry_after.ns(),
            max_ejected,
            ejection_ns: ejection,
            ejection_max_ns: longest,
            tuning: Tuning { clients, ..default.tuning },
            ..default
        }
    }

    /// Warns about budgets that contradict each other or the policy. Rescues spend from both, so the
    /// smaller one limits them.
    fn check_budgets(&self, hedge: f64, rescue: f64, report: &mut Report<'_>) {
        let rescues = self.policy.rescues().is_some();
        let (hedge_at, rescue_at) = (self.raw.hedge_budget.span(), self.raw.rescue_budget.span());
        if let Some(at) = &rescue_at {
            self.warn_unused(at, "rescue_budget", "rescue", rescues, report);
        }
        if let Some(at) = rescue_at.as_ref().filter(|_| rescue == 0.0 && rescues) {
            let wrong = "without a rescue_budget the policy explores nothing, so it learns and \
                         rescues nothing";
            report.warn(at, wrong, "set it above 0, or use psq");
        }
        let spends = self.policy.hedges() && self.policy.is_budgeted();
        if let Some(at) = hedge_at.as_ref().filter(|_| spends && hedge == 0.0) {
            let wrong = "without a hedge_budget no second copies are sent";
            let fix =
                "set it above 0, or use a policy without second copies, like least-outstanding";
            report.warn(at, wrong, fix);
        } else if let Some(at) = hedge_at.or(rescue_at).filter(|_| rescues && hedge < rescue) {
            let wrong = format!(
                "hedge_budget ({hedge}) is below rescue_budget ({rescue}), and rescues spend from \
                 both"
            );
            report.warn(&at, &wrong, "set hedge_budget to at least rescue_budget");
        }
    }

    /// Checks the timeouts against each other.
    fn check_timeouts(&self, limits: &Limits, report: &mut Report<'_>) {
        let spans = [limits.timeout_ns, limits.attempt_timeout_ns, limits.cancel_timeout_ns];
        let [whole, attempt, silent] = spans.map(Duration::from_nanos);
        if let Some(given) = self.raw.attempt_timeout.as_ref().filter(|_| whole <= attempt) {
            let wrong = format!(
                "the request's timeout ({whole:?}) is not longer than attempt_timeout \
                 ({attempt:?}), so a copy that hangs is never retried"
            );
            report.warn(&given.span(), &wrong, "set timeout to at least twice attempt_timeout");
        }
        // A replica that stops when it is cancelled is never silent for long.
        let is_short = !limits.cancel && silent < attempt;
        if let Some(at) = self.raw.cancel_timeout.span().filter(|_| is_short) {
            let wrong = format!(
                "cancel_timeout ({silent:?}) is shorter than attempt_timeout ({attempt:?}), so a \
                 replica that still works on a slow request gets another one"
            );
            report.warn(&at, &wrong, "set cancel_timeout to at least attempt_timeout");
        }
        if let Some(delay_ns) = self.policy.delay_ns()
            && Duration::from_nanos(delay_ns) >= attempt
            && let Some(given) = &self.raw.policy
        {
            let wrong = format!(
                "the delay is not below attempt_timeout ({attempt:?}), so the policy never hedges"
            );
            report.warn(&given.span(), &wrong, "use a shorter delay");
        }
    }

    /// Resolves the path of the load probes.
    fn probe(&self, report: &mut Report<'_>) -> Option<String> {
        let probes = self.policy.needs().probes;
        let Some(given) = &self.raw.probe else {
            if probes {
                let wrong = "the policy prequal sends probes and needs a path for them";
                let fix = "add probe = \"/load\", a path whose response reports \
                           named_metrics.in_flight and named_metrics.latency_ms in the header \
                           endpoint-load-metrics";
                report.missing(self.at, wrong, fix);
            }
            return None;
        };
        check::path(report, "probe", given, true);
        self.warn_unused(&given.span(), "probe", "prequal", probes, report);
        Some(given.get().clone()).filter(|_| probes)
    }

    fn routes(&self, report: &mut Report<'_>) -> Vec<Route> {
        let tables = each(self.raw.route.as_ref());
        if tables.is_empty() {
            return vec![Route::default()];
        }
        tables.iter().map(|(raw, _)| self.route(raw, report)).collect()
    }

    fn route(&self, raw: &raw::Route, report: &mut Report<'_>) -> Route {
        if let Some(prefix) = &raw.path_prefix {
            check::path(report, "path_prefix", prefix, false);
        }
        if let Some(method) = &raw.method {
            check::method(report, "method", method);
        }
        let cost = raw.cost.as_ref().and_then(|given| self.cost(given, report));
        let prefix = raw.path_prefix.as_ref().map_or("", |given| given.get());
        let mut path_prefix = prefix.trim_end_matches('/').to_owned();
        let mut method = raw.method.as_ref().map(|given| given.get().clone());
        if let Some(grpc) = &raw.grpc {
            let is_http2 = *self.raw.protocol.get() != raw::Protocol::Http1;
            grpc_route(raw, grpc, is_http2, report);
            path_prefix = format!("/{}", grpc.get());
            method = Some("POST".to_owned());
        }
        let commit = commit(raw, report);
        let (tunnel, idempotent) = (raw.tunnel, raw.idempotent);
        Route { path_prefix, method, commit, tunnel, idempotent, cost }
    }

    fn cost(&self, given: &Given<f64>, report: &mut Report<'_>) -> Option<Cost> {
        let rescues = self.policy.rescues().is_some();
        self.warn_unused(&given.span(), "cost", "rescue", rescues, report);
        let cost = Cost::new(*given.get());
        if cost.is_none() {
            let fix = "use a number above 0; a usual request costs 1, and 3 is three times as much";
            report.error(&given.span(), "cost is out of range", fix);
        }
        cost
    }

    fn cost_hint(&self, report: &mut Report<'_>) -> Option<String> {
        let given = self.raw.cost_hint.as_ref()?;
        let rescues = self.policy.rescues().is_some();
        self.warn_unused(&given.span(), "cost_hint", "rescue", rescues, report);
        let Some(header) = &given.get().header else {
            let fix = "write { header = \"x-curtail-cost\" }";
            report.missing(&given.span(), "cost_hint has no header", fix);
            return None;
        };
        Some(check::header(report, header, "x-curtail-cost"))
    }

    /// Warns about a key that only the policy `of` uses, if this one does not use it.
    fn warn_unused(
        &self,
        at: &Range<usize>,
        key: &str,
        of: &str,
        is_used: bool,
        report: &mut Report<'_>,
    ) {
        if !is_used {
            let wrong = format!("{key} is for the policy {of}, and {} ignores it", self.policy);
            report.warn(at, &wrong, &format!("remove it, or use {of}"));
        }
    }
}

fn health(service: &raw::Service, report: &mut Report<'_>) -> Health {
    let default = raw::Health::default();
    let raw = match service.health.as_ref().map(Given::get) {
        Some(OrFalse::Off) => return Health { probe: Probe::Connect, ..Health::default() },
        Some(OrFalse::On(raw)) => raw,
        None => &default,
    };
    if let Some(path) = &raw.path {
        check::path(report, "health path", path, true);
    }
    if let (Some(path), Some(_)) = (&raw.path, &raw.grpc) {
        let wrong = "health has a path beside grpc";
        report.error(&path.span(), wrong, "remove one of them");
    }
    if let Some(grpc) = &raw.grpc
        && *service.protocol.get() == raw::Protocol::Http1
    {
        let wrong = "health.grpc requires HTTP/2";
        report.error(&grpc.span(), wrong, "set protocol to \"grpc\" or \"h2\", or use path");
    }
    let probe = match (&raw.path, &raw.grpc) {
        (_, Some(grpc)) => Probe::Grpc(grpc.get().clone()),
        (None, None) if upstream::is_grpc(service) => Probe::Grpc(String::new()),
        (path, None) => {
            Probe::Get(path.as_ref().map_or_else(|| "/".into(), |given| given.get().clone()))
        }
    };
    Health { probe, interval: raw.interval.get(), timeout: raw.timeout.get() }
}

fn commit(raw: &raw::Route, report: &mut Report<'_>) -> Commit {
    let first_chunk = *raw.first_chunk.get();
    if let Some(at) = raw.first_chunk.span().filter(|_| first_chunk && raw.unary) {
        report.error(&at, "first_chunk is set beside unary", "remove one of them");
    }
    match (raw.unary, first_chunk) {
        (true, _) => Commit::End,
        (false, true) => Commit::FirstChunk,
        (false, false) => Commit::Head,
    }
}

fn grpc_route(raw: &raw::Route, grpc: &Given<String>, is_http2: bool, report: &mut Report<'_>) {
    if !is_http2 {
        let wrong = "gRPC requires HTTP/2, and the replicas of this service use HTTP/1.1";
        report.warn(&grpc.span(), wrong, "set protocol = \"grpc\"");
    }
    let fine = |c: char| c.is_ascii_alphanumeric() || "._/".contains(c);
    let (text, fix) = (grpc.get(), "write it like \"search.Search/Query\"");
    let slashes = text.matches('/').count();
    let ends = |c: char| text.starts_with(c) || text.ends_with(c);
    if text.is_empty() || slashes > 1 || ends('/') || !text.chars().all(fine) {
        report.error(&grpc.span(), "grpc is not a method of gRPC", fix);
    }
    for (key, given) in [("path_prefix", &raw.path_prefix), ("method", &raw.method)] {
        if let Some(given) = given {
            let wrong = format!("{key} is not allowed beside grpc");
            report.error(&given.span(), &wrong, "remove one of them");
        }
    }
}

fn idempotent_methods(raw: &raw::Service, report: &mut Report<'_>) -> Vec<String> {
    let Some(given) = &raw.idempotent_methods else {
        return vec!["GET".into(), "HEAD".into()];
    };
    for method in given {
        check::method(report, "this entry of idempotent_methods", method);
        if matches!(method.get().as_str(), "POST" | "PATCH") {
            let wrong =
                "is not idempotent in HTTP, and its requests may now run twice on every route";
            let fix = "declare the routes on which it is idempotent: { path_prefix, method, \
                       idempotent = true }";
            report.warn(&method.span(), wrong, fix);
        }
    }
    given.iter().map(|method| method.get().clone()).collect()
}
