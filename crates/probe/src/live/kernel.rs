//! The programs and maps of `bpf/stages.bpf.c`. Map values are read as arrays of words, so the
//! constants below must match the structures in C.

use std::num::NonZeroU32;
use std::os::fd::{AsFd as _, OwnedFd};
use std::thread;

use aya::maps::{Array, HashMap, MapData, PerCpuArray, RingBuf};
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::uprobe::{UProbeLink, UProbeScope};
use aya::programs::{BtfTracePoint, Program, ProgramError, UProbe};
use aya::{Btf, Ebpf, EbpfLoader};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};

use super::places::{Place, Places};
use super::{LiveError, PORTS, Target};
use crate::app::{App, MARKS_MAX};
use crate::histogram::KERNEL_BUCKETS;
use crate::moments::pairs;

/// The object that `xtask/bpf.sh` compiles from `bpf/stages.bpf.c`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/stages.bpf.o");

/// The number of stamps per request. Stages lie between stamps.
pub(super) const STAMPS: usize = 10;
pub(super) const STAGES: usize = STAMPS - 1;
pub(super) const EVIDENCE: usize = 5;
pub(super) const VALUES: usize = STAGES + EVIDENCE;
const PAIRS: usize = pairs(VALUES);
/// The size of the sums, in words. The programs use the last STAMPS + VALUES words as working
/// memory.
const SUMS_WORDS: usize = 1 + VALUES + 2 * PAIRS + STAMPS + VALUES;
/// The size of a connection, in words: 15 single fields, 64 packets, 64 requests.
const CONNECTION_WORDS: usize = 15 + 64 * 5 + 64 * (2 * MARK + EVIDENCE + 2);
pub(super) const REPORT_WORDS: usize = 1 + STAMPS + EVIDENCE;

/// The index of the first mark among the stamps.
pub(super) const MARK: usize = 4;

/// The reasons for missing data, in the same order as in the enumeration in `stages.bpf.c`.
const REASONS: [&str; 7] = [
    "packets of connections beyond the limit (--connections)",
    "requests whose packets arrived before stamping began",
    "packets of connections with 64 unread packets",
    "requests of connections with 64 unfinished requests",
    "whole requests that could not be reported in time",
    "requests of more than 4.29 s, recorded as 4.29 s",
    "packets without a timestamp of the network device",
];

/// Pairs of a program and its tracepoint.
const TRACEPOINTS: [(&str, &str); 9] = [
    ("segment", "tcp_probe"),
    ("ready", "sk_data_ready"),
    ("received", "sock_recv_length"),
    ("sending", "tcp_sendmsg_locked"),
    ("transmit", "net_dev_start_xmit"),
    ("sent", "sock_send_length"),
    ("closed", "tcp_destroy_sock"),
    ("waking", "sched_waking"),
    ("switched", "sched_switch"),
];
/// A tracepoint that is available since Linux 6.16. Without it, the start of a write counts as its
/// end.
const OPTIONAL: &str = "tcp_sendmsg_locked";

const MARK_PROGRAMS: [&str; 4] = ["mark0", "mark1", "mark2", "mark3"];

/// The settings that may change while the programs run. They correspond to `struct control`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Control {
    pub epoch: u64,
    pub real_ns: u64,
    pub slow_ns: u64,
    pub one_in: u64,
    pub bank: u64,
}

/// The sums that a bank has collected since it was last read.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    pub requests: u64,
    pub sums: Vec<u64>,
    pub products: Vec<u128>,
    /// The bucket counts for each stage and for the total.
    pub buckets: Vec<Vec<u64>>,
}

/// The loaded programs and their maps.
pub(super) struct Kernel {
    bpf: Ebpf,
    control: Array<MapData, [u64; 5]>,
    sums: PerCpuArray<MapData, [u64; SUMS_WORDS]>,
    buckets: PerCpuArray<MapData, [u32; KERNEL_BUCKETS]>,
    missing: PerCpuArray<MapData, [u64; 7]>,
    reports: RingBuf<MapData>,
    places: Vec<Place>,
    tracepoints: Vec<BtfTracePointLink>,
    marks: Vec<UProbeLink>,
    detaching: Vec<thread::JoinHandle<()>>,
    /// While this socket is open, the network stack timestamps arriving packets. It is kept open
    /// for the whole session, because timestamping starts with a delay.
    _timestamps: OwnedFd,
    before: [Sums; 2],
}

impl Kernel {
    /// Loads the programs without attaching them.
    pub(super) fn load(
        target: &Target,
        app: &App,
        places: &Places,
        connections: u32,
    ) -> Result<Kernel, LiveError> {
        let btf = Btf::from_sys_fs().map_err(|_| LiveError::NoBtf)?;
        let mut ports = [0_u16; PORTS];
        ports.iter_mut().zip(&target.ports).for_each(|(to, &port)| *to = port);
        let mut keys = [0_u64; MARKS_MAX];
        let named = app.mark.iter().map(|mark| mark.key.map_or(0, |key| 1 + u64::from(key)));
        keys.iter_mut().zip(named).for_each(|(to, key)| *to = key);
        let (marks, listening) = (app.mark.len() as u32, target.ports.len() as u32);
        let mut bpf = EbpfLoader::new()
            .btf(Some(&btf))
            .allow_unsupported_maps()
            .override_global("marks", &marks, true)
            .override_global("ports", &listening, true)
            .override_global("port", &ports, true)
            .override_global("namespace", &target.namespace, true)
            .override_global("key", &keys, true)
            .override_global("unread", &places.unread, true)
            .map_max_entries("CONNECTIONS", connections)
            .load(OBJECT)
            .map_err(|error| LiveError::kernel("the maps of the profiler", &error))?;
        for name in MARK_PROGRAMS {
            let program: &mut UProbe = program(&mut bpf, name)?;
            program.load().map_err(|error| LiveError::kernel(format!("program {name}"), &error))?;
        }
        for (name, tracepoint) in TRACEPOINTS {
            let program: &mut BtfTracePoint = program(&mut bpf, name)?;
            match program.load(tracepoint, &btf) {
                Err(ProgramError::Btf(_)) if tracepoint == OPTIONAL => {}
                Err(ProgramError::Btf(_)) => return Err(LiveError::NoTracepoint(tracepoint)),
                done => {
                    done.map_err(|error| LiveError::kernel(format!("program {name}"), &error))?;
                }
            }
        }
        let timestamps =
            timestamps().map_err(|error| LiveError::kernel("timestamps of packets", &error))?;
        Ok(Kernel {
            control: map(&mut bpf, "CONTROL")?,
            sums: map(&mut bpf, "SUMS")?,
            buckets: map(&mut bpf, "BUCKET")?,
            missing: map(&mut bpf, "MISSING")?,
            reports: map(&mut bpf, "REPORTS")?,
            places: places.places.clone(),
            tracepoints: Vec::new(),
            marks: Vec::new(),
            detaching: Vec::new(),
            _timestamps: timestamps,
            before: Default::default(),
            bpf,
        })
    }

    /// Attaches all programs. An attached program costs time even if it returns immediately.
    pub(super) fn attach_all(&mut self) -> Result<(), LiveError> {
        // The earlier threads are joined first, so that there are never more threads than places.
        self.detaching.drain(..).for_each(|waits| drop(waits.join()));
        for (name, tracepoint) in TRACEPOINTS {
            let program: &mut BtfTracePoint = program(&mut self.bpf, name)?;
            let link = match program.attach() {
                // An older kernel lacks this tracepoint, so the program was not loaded.
                Err(ProgramError::NotLoaded) if tracepoint == OPTIONAL => continue,
                attached => attached.and_then(|id| program.take_link(id)),
            };
            let probe = || format!("a probe of {tracepoint}");
            self.tracepoints.push(link.map_err(|error| LiveError::kernel(probe(), &error))?);
        }
        for at in 0..self.places.len() {
            let place = self.places[at].clone();
            let link = self.attach(&place)?;
            self.marks.push(link);
        }
        Ok(())
    }

    /// Removes all probes. The kernel disables a mark's probe immediately. The call then blocks for
    /// a few tenths of a second, until the probe can no longer be running, so each probe is removed
    /// in its own thread.
    pub(super) fn detach_all(&mut self) {
        for link in self.marks.drain(..) {
            let waits = thread::Builder::new().name("detach".to_owned()).spawn(move || drop(link));
            self.detaching.extend(waits.ok());
        }
        self.tracepoints.clear();
    }

    /// Attaches a probe. Dropping the link removes the probe.
    pub(super) fn attach(&mut self, place: &Place) -> Result<UProbeLink, LiveError> {
        let program: &mut UProbe = program(&mut self.bpf, MARK_PROGRAMS[place.mark])?;
        let scope = NonZeroU32::new(place.process)
            .map_or(UProbeScope::CallingProcess, UProbeScope::OneProcess);
        let attached = program.attach(place.offset, &place.path, scope);
        let link = attached.and_then(|id| program.take_link(id));
        let probe = || format!("a probe in process {}", place.process);
        link.map_err(|error| LiveError::kernel(probe(), &error))
    }

    pub(super) fn set(&mut self, control: Control) -> Result<(), LiveError> {
        let Control { epoch, real_ns, slow_ns, one_in, bank } = control;
        let words = [epoch, real_ns, slow_ns, one_in, bank];
        self.control
            .set(0, words, 0)
            .map_err(|error| LiveError::kernel("new control settings", &error))
    }

    /// Returns the sums that a bank has collected since it was last read. No program may write to
    /// the bank in the meantime.
    pub(super) fn sums(&mut self, bank: usize) -> Result<Sums, LiveError> {
        let refused = |error| LiveError::kernel("access to its sums", &error);
        let mut all = Sums { sums: vec![0; VALUES], products: vec![0; PAIRS], ..Sums::default() };
        for words in self.sums.get(&(bank as u32), 0).map_err(refused)?.iter() {
            all.requests += words[0];
            all.sums.iter_mut().zip(&words[1..]).for_each(|(to, from)| *to += from);
            let (low, high) = words[1 + VALUES..1 + VALUES + 2 * PAIRS].split_at(PAIRS);
            for ((to, &low), &high) in all.products.iter_mut().zip(low).zip(high) {
                *to += u128::from(low) | u128::from(high) << 64;
            }
        }
        for which in 0..=STAGES {
            let mut counts = vec![0; KERNEL_BUCKETS];
            let at = (bank * (STAGES + 1) + which) as u32;
            for buckets in self.buckets.get(&at, 0).map_err(refused)?.iter() {
                counts.iter_mut().zip(buckets).for_each(|(to, &from)| *to += u64::from(from));
            }
            all.buckets.push(counts);
        }
        let before = std::mem::replace(&mut self.before[bank], all.clone());
        Ok(all.since(before))
    }

    /// Returns the next whole request that a program reported.
    pub(super) fn report(&mut self) -> Option<[u64; REPORT_WORDS]> {
        let item = self.reports.next()?;
        let mut words = [0; REPORT_WORDS];
        for (word, bytes) in words.iter_mut().zip(item.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Some(words)
    }

    /// Returns how often data has been missing so far, by reason.
    pub(super) fn missing(&self) -> Result<Vec<(&'static str, u64)>, LiveError> {
        let words = self
            .missing
            .get(&0, 0)
            .map_err(|error| LiveError::kernel("access to its counters", &error))?;
        let sum = |at: usize| words.iter().map(|words| words[at]).sum();
        Ok(REASONS.iter().enumerate().map(|(at, reason)| (*reason, sum(at))).collect())
    }

    /// Returns the total run time of the programs while statistics were enabled, in nanoseconds.
    pub(super) fn run_ns(&self) -> u64 {
        let infos = self.bpf.programs().filter_map(|(_, program)| program.info().ok());
        infos.map(|info| info.run_time().as_nanos() as u64).sum()
    }

    /// Returns the number of times that requests passed a mark while statistics were enabled.
    pub(super) fn mark_runs(&self, mark: usize) -> u64 {
        let program = self.bpf.program(MARK_PROGRAMS[mark]);
        program.and_then(|program| program.info().ok()).map_or(0, |info| info.run_count())
    }

    /// Whether the table contains any connection. If so, packets have arrived.
    pub(super) fn has_connections(&self) -> bool {
        let table = self.bpf.map("CONNECTIONS").expect("the object has it");
        let table = HashMap::<_, u64, [u64; CONNECTION_WORDS]>::try_from(table);
        table.is_ok_and(|table| table.keys().next().is_some())
    }

    /// Returns the number of program runs that the kernel skipped because another program was
    /// running on the same processor.
    pub(super) fn missed_runs(&self) -> u64 {
        let missed = |program: &Program| {
            use std::os::fd::AsRawFd as _;
            let fd = program.fd().ok()?.as_fd().as_raw_fd();
            let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix("recursion_misses:"))?;
            line.trim().parse::<u64>().ok()
        };
        self.bpf.programs().filter_map(|(_, program)| missed(program)).sum()
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel").field("places", &self.places).finish_non_exhaustive()
    }
}

impl Sums {
    fn since(mut self, before: Sums) -> Sums {
        self.requests -= before.requests;
        self.sums.iter_mut().zip(before.sums).for_each(|(to, from)| *to -= from);
        self.products.iter_mut().zip(before.products).for_each(|(to, from)| *to -= from);
        for (to, from) in self.buckets.iter_mut().zip(before.buckets) {
            // The buckets are 32-bit counters and may have wrapped.
            to.iter_mut().zip(from).for_each(|(to, from)| *to = to.saturating_sub(from));
        }
        self
    }
}

fn program<'b, P>(bpf: &'b mut Ebpf, name: &str) -> Result<&'b mut P, LiveError>
where
    &'b mut P: TryFrom<&'b mut Program, Error = ProgramError>,
{
    let program = bpf.program_mut(name).expect("the object has it");
    program.try_into().map_err(|error| LiveError::kernel(format!("program {name}"), &error))
}

fn map<M: TryFrom<aya::maps::Map, Error = aya::maps::MapError>>(
    bpf: &mut Ebpf,
    name: &str,
) -> Result<M, LiveError> {
    let map = bpf.take_map(name).expect("the object has it");
    M::try_from(map).map_err(|error| LiveError::kernel(format!("map {name}"), &error))
}

fn timestamps() -> nix::Result<OwnedFd> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    Ok(socket)
}
