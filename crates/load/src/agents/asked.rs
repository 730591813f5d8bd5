//! A plan as an agent is told it.
//!
//! Files are read where the command was given; what they hold goes along. Those that only the protocol
//! below reads (authorities, schemas) do not: an agent opens no file because somebody says so.

use curtail_dist::arrivals::Arrivals;
use serde::{Deserialize, Serialize};

use super::{AGENTS_MAX, AgentsError};
use crate::engine::stamp::StampsBy;
use crate::plan::keys::Keys;
use crate::plan::profile::Profile;
use crate::plan::protocol::{AnswerEnd, Protocol, Trust};
use crate::plan::queries::QueryOrder;
use crate::plan::share::Part;
use crate::plan::target::Target;
use crate::plan::{Extent, Pace, Plan};

/// Of a burst without a unit in its text; nobody writes one.
const UNIT_NS: f64 = 1e6;

/// One agent's part of a plan.
#[derive(Serialize, Deserialize)]
pub(crate) struct Asked {
    number: u64,
    of: u64,
    target: String,
    /// None for a closed loop.
    pace: Option<(Profile, Process)>,
    extent: Extent,
    connections: usize,
    backlog: usize,
    headers: Vec<(String, String)>,
    queries: Vec<String>,
    order: QueryOrder,
    timeout_ns: u64,
    body_bytes_max: u64,
    warmup_ns: u64,
    threads: usize,
    spin: bool,
    stamps: StampsBy,
    seed: u64,
    http2: bool,
    streams: usize,
    trust_anyone: bool,
    answer_end: AnswerEnd,
    datagram_bytes: usize,
    method: Option<String>,
    data: Option<String>,
    keys: Option<Keys>,
}

/// An arrival process: its text, or what a trace has.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Process {
    Text(String),
    Trace { name: String, gaps: Vec<f64>, mean_ns: Option<f64> },
}

impl Asked {
    /// An agent's part of a plan: `own` is the plan of what it does alone.
    ///
    /// # Errors
    ///
    /// [`AgentsError::Unsupported`] if the plan names files that agents do not get.
    pub(crate) fn of(own: &Plan, part: Part) -> Result<Asked, AgentsError> {
        let Plan { protocol, .. } = own;
        let unsupported = |what| Err(AgentsError::Unsupported(what));
        if protocol.schema.is_some() {
            return unsupported("a schema of gRPC; write the messages as {\"base64\": \"...\"}");
        }
        if matches!(protocol.trust, Trust::File(_)) {
            return unsupported(
                "authorities of a file; have the systems of the agents trust them, or anyone",
            );
        }
        if !own.processors.numbers().is_empty() {
            return unsupported("processors, which every machine numbers for itself");
        }
        if own.stamps == StampsBy::Xdp {
            return unsupported("a way past the network stack, which has one connection");
        }
        let pace = match &own.pace {
            Pace::Open { profile, arrivals } => Some((profile.clone(), Process::of(arrivals))),
            Pace::Closed => None,
        };
        Ok(Asked {
            number: part.number,
            of: part.of,
            target: own.target.to_string(),
            pace,
            extent: own.extent,
            connections: own.connections,
            backlog: own.backlog,
            headers: own.headers.clone(),
            queries: own.queries.clone(),
            order: own.order,
            timeout_ns: own.timeout_ns,
            body_bytes_max: own.body_bytes_max,
            warmup_ns: own.warmup_ns,
            threads: own.threads,
            spin: own.spin,
            stamps: own.stamps,
            seed: own.seed,
            http2: protocol.http2,
            streams: protocol.streams,
            trust_anyone: protocol.trust == Trust::Anyone,
            answer_end: protocol.answer_end.clone(),
            datagram_bytes: protocol.datagram_bytes,
            method: protocol.method.clone(),
            data: protocol.data.clone(),
            keys: protocol.keys,
        })
    }

    /// The plan, and which part of it to send. It is not checked beyond what makes it one.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(crate) fn plan(self) -> Result<(Plan, Part), String> {
        let part = Part { number: self.number, of: self.of };
        if part.number >= part.of || part.of > AGENTS_MAX as u64 {
            let most = AGENTS_MAX;
            return Err(format!(
                "part {}, counted from 0, of {}; there are {most} at most",
                part.number, part.of
            ));
        }
        let target: Target = self.target.parse().map_err(|error| format!("{error}"))?;
        let pace = match self.pace {
            Some((profile, process)) => Pace::Open { profile, arrivals: process.arrivals()? },
            None => Pace::Closed,
        };
        let plan = Plan {
            pace,
            extent: self.extent,
            // Whoever sees all of it decides when it is enough.
            until: None,
            connections: self.connections,
            backlog: self.backlog,
            headers: self.headers,
            queries: self.queries,
            order: self.order,
            timeout_ns: self.timeout_ns,
            body_bytes_max: self.body_bytes_max,
            warmup_ns: self.warmup_ns,
            threads: self.threads,
            spin: self.spin,
            stamps: self.stamps,
            seed: self.seed,
            protocol: Protocol {
                http2: self.http2,
                streams: self.streams,
                trust: if self.trust_anyone { Trust::Anyone } else { Trust::System },
                schema: None,
                answer_end: self.answer_end,
                datagram_bytes: self.datagram_bytes,
                method: self.method,
                data: self.data,
                keys: self.keys,
            },
            ..Plan::new(target, 1.0)
        };
        Ok((plan, part))
    }
}

impl Process {
    fn of(arrivals: &Arrivals) -> Process {
        match arrivals {
            Arrivals::Trace { path, gaps, mean_ns } => Process::Trace {
                name: path.display().to_string(),
                gaps: gaps.to_vec(),
                mean_ns: *mean_ns,
            },
            other => Process::Text(other.to_string()),
        }
    }

    fn arrivals(self) -> Result<Arrivals, String> {
        match self {
            // Its file would be one of the agent's machine.
            Process::Text(text) if text.starts_with("trace") => {
                Err(format!("arrivals `{text}`: the gaps of a trace are missing"))
            }
            Process::Text(text) => {
                Arrivals::parse(&text, UNIT_NS).map_err(|error| error.to_string())
            }
            Process::Trace { name, gaps, mean_ns } => {
                let time = |gap: &f64| gap.is_finite() && *gap >= 0.0;
                // With no time in it a schedule would never get anywhere.
                if !gaps.iter().all(time) || gaps.iter().sum::<f64>() < 0.5 * gaps.len() as f64 {
                    return Err(format!("trace {name}: its gaps have no mean of 1"));
                }
                if gaps.is_empty() {
                    return Err(format!("trace {name}: it has no gaps"));
                }
                Ok(Arrivals::Trace { path: name.into(), gaps: gaps.into(), mean_ns })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::keys::KeyDistribution;

    fn sent(plan: &Plan) -> Result<(Plan, Part), String> {
        let part = Part { number: 1, of: 3 };
        let text = serde_json::to_string(&Asked::of(plan, part).unwrap()).unwrap();
        serde_json::from_str::<Asked>(&text).unwrap().plan()
    }

    #[test]
    fn a_plan_arrives_as_it_was() {
        let mut plan = Plan::new("http://127.0.0.1:1/a?b=c".parse().unwrap(), 1.0);
        let gaps = vec![0.5, 1.5].into();
        let trace = Arrivals::Trace { path: "t.txt".into(), gaps, mean_ns: Some(1.0 / 3.0) };
        for (rate, arrivals) in [
            ("333.3333333333333", Arrivals::Poisson),
            ("10..70", Arrivals::Constant),
            ("1:10s,2:1h", Arrivals::parse("mmpp:5:0.1:50ms", 1.0).unwrap()),
            ("7", trace),
        ] {
            plan.pace = Pace::Open { profile: rate.parse().unwrap(), arrivals };
            assert_eq!(sent(&plan).unwrap(), (plan.clone(), Part { number: 1, of: 3 }));
        }
        (plan.pace, plan.extent) = (Pace::Closed, Extent::Requests(u64::MAX));
        plan.headers = vec![("a".to_owned(), "\u{1}ü\"".to_owned())];
        plan.queries = vec!["/ä".to_owned(), "{\"path\": \"/\"}".to_owned()];
        plan.order = QueryOrder::Rounds;
        plan.protocol.keys = Some(Keys { count: 3, distribution: KeyDistribution::Zipf(0.99) });
        plan.protocol.answer_end = AnswerEnd::Until(vec![0, 255]);
        plan.protocol.trust = Trust::Anyone;
        assert_eq!(sent(&plan).unwrap().0, plan);
    }

    #[test]
    fn a_part_that_there_is_not_is_refused() {
        let plan = Plan::new("http://127.0.0.1:1/".parse().unwrap(), 1.0);
        let most = AGENTS_MAX as u64;
        for (number, of, fine) in [
            (0, 1, true),
            (most - 1, most, true),
            (0, 0, false),
            (1, 1, false),
            (0, most + 1, false),
            (0, 1 << 63, false),
            (u64::MAX - 1, u64::MAX, false),
        ] {
            let asked = Asked { number, of, ..Asked::of(&plan, Part::WHOLE).unwrap() };
            match asked.plan() {
                Ok((_, part)) => assert!(fine && part == Part { number, of }, "{part:?}"),
                Err(why) => assert!(!fine && why.contains("64 at most"), "{why}"),
            }
        }
    }

    #[test]
    fn files_of_the_agents_machine_are_not_opened() {
        let mut plan = Plan::new("https://127.0.0.1:1/".parse().unwrap(), 1.0);
        plan.protocol.trust = Trust::File("ca.pem".into());
        let part = Part::WHOLE;
        assert!(matches!(Asked::of(&plan, part), Err(AgentsError::Unsupported(_))));
        for text in ["trace:/etc/passwd", "trace"] {
            assert!(Process::Text(text.to_owned()).arrivals().is_err());
        }
        for gaps in [vec![], vec![0.0, 0.0], vec![f64::NAN], vec![-1.0, 3.0]] {
            let trace = Process::Trace { name: "t".to_owned(), gaps, mean_ns: None };
            assert!(trace.arrivals().is_err());
        }
    }
}
