//! Measures the overhead of each method of timestamping requests and responses on this machine.
//!
//! The generator sends requests over loopback to a thread that echoes them. The path and the echo
//! are the same for all methods, so the figures of two methods differ only by the overhead of the
//! methods:
//!
//! | method | contents of the figure |
//! |---|---|
//! | user space, sleeping | the path, the echo, and the wake-up of this program |
//! | user space, spinning | the same, but without most of the wake-up |
//! | kernel | the path and the echo: from the timestamp of the request to that of the response |
//! | past the stack | the path, and the echo with its own stack; over veth, because loopback has no bypass |
//!
//! Source: document 000, §3.1, which compares such methods with the most precise one.
//!
//! Cost: half a second for each combination of method and transport, and less than eight seconds in
//! total.

use std::future::pending;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, available_parallelism};
use std::time::{Instant, SystemTime};

use curtail_xdp::namespace::{Namespace, pair};
use serde::Serialize;
use tokio::runtime::Builder;

use crate::engine::stamp::{clocks, devices};
use crate::plan::error::LoadError;
use crate::plan::schedule::Extent;
use crate::plan::{Pace, Plan, StampsBy};
use crate::results::report::{Report, Stamps};
use crate::results::split::Parts;
use crate::results::summary::Summary;
use crate::run::{blocking, run};

/// Requests per second. The rate is low enough that no request waits for the previous one.
const RATE: f64 = 2_500.0;
const MEASURED_NS: u64 = 480_000_000;
const WARMUP_NS: u64 = 40_000_000;
const TIMEOUT_NS: u64 = 1_000_000_000;
/// Number of clock reads per figure, and number of figures per median.
const READS: u32 = 1_000;
const ROUNDS: usize = 101;

/// The overhead of the timestamping methods on a machine.
#[derive(Debug, Clone, Serialize)]
pub struct Calibration {
    /// The duration of one read of the run's clock, in nanoseconds.
    pub clock_read_ns: f64,
    /// The duration of one read of the system clock, which the kernel's timestamps use, in
    /// nanoseconds.
    pub system_clock_read_ns: f64,
    /// The result of each method over each transport.
    pub methods: Vec<Method>,
    /// Whether network devices support timestamps.
    pub hardware: Hardware,
}

/// A measurement method and its result.
#[derive(Debug, Clone, Serialize)]
pub struct Method {
    /// `udp` or `tcp`.
    pub transport: &'static str,
    /// `loopback`, or `veth` between two network namespaces.
    pub over: &'static str,
    /// The source of the timestamps.
    pub stamps: StampsBy,
    /// Whether the sending thread never sleeps.
    pub spinning: bool,
    /// The measurements, or the reason why there are none.
    #[serde(flatten)]
    pub found: Found,
}

/// The result of a method.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// The method works on this machine.
    Measured(Box<Measured>),
    /// The method does not work on this machine, for the given reason.
    Lacking(String),
}

/// The figures of a method. Times are in nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// The number of echoes that arrived.
    pub echoes: u64,
    /// The time from when a connection took a request until it read the echo. This is the latency
    /// that a program sees.
    pub latency_ns: Summary,
    /// The time between a request's intended time and the moment at which a connection took the
    /// request.
    pub schedule_lag_ns: Summary,
    /// The parts of the median latency, excluding the schedule lag. With kernel timestamps, the
    /// result is `wire_to_wire`. A program also has to wait for `client_send` and `client_wake_up`.
    pub median_parts_ns: Option<Parts>,
    /// The share of echoes with kernel timestamps, or the share that bypassed the stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamped: Option<Stamps>,
}

/// The network devices of this machine, and the devices that can timestamp packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hardware {
    /// All devices of this machine.
    pub devices: Vec<String>,
    /// The devices that have their own clock (PTP) and can therefore timestamp packets.
    pub clocks: Vec<String>,
}

/// Measures the overhead of each timestamping method, in a tokio runtime with time and I/O enabled.
/// Dropping the future ends the measurement immediately, except for the methods over veth, which
/// run for up to two seconds on a blocking thread of the runtime. Dropping the runtime waits for
/// that thread; shutting it down in the background does not.
///
/// Returns a [`LoadError`] if no socket or thread is available. A method that does not work here is
/// not an error.
pub async fn calibrate() -> Result<Calibration, LoadError> {
    let mut methods = Vec::new();
    for transport in ["udp", "tcp"] {
        let echo = Echo::start(transport == "tcp", Ipv4Addr::LOCALHOST);
        let echo = echo.map_err(LoadError::Thread)?;
        for stamps in [StampsBy::User, StampsBy::Kernel] {
            for spinning in [false, true] {
                let found = measure(&echo, stamps, spinning).await?;
                methods.push(Method { transport, over: "loopback", stamps, spinning, found });
            }
        }
    }
    methods.extend(over_wire().await?);
    Ok(Calibration {
        clock_read_ns: cost_ns(|| std::hint::black_box(Instant::now())),
        system_clock_read_ns: cost_ns(|| std::hint::black_box(SystemTime::now())),
        methods,
        hardware: Hardware { devices: devices(), clocks: clocks() },
    })
}

async fn measure(echo: &Echo, stamps: StampsBy, spin: bool) -> Result<Found, LoadError> {
    if spin && available_parallelism().is_ok_and(|processors| processors.get() < 2) {
        let why = "there is only one processor, and the echo needs one of its own";
        return Ok(Found::Lacking(why.to_owned()));
    }
    let transport = if echo.stream { "tcp" } else { "udp" };
    let target = format!("{transport}://{}", echo.address);
    let target = target.parse().map_err(io::Error::other).map_err(LoadError::Thread)?;
    let mut plan = Plan::new(target, RATE);
    (plan.pace, plan.extent) = (Pace::constant(RATE), Extent::Duration { ns: MEASURED_NS });
    (plan.warmup_ns, plan.timeout_ns, plan.connections) = (WARMUP_NS, TIMEOUT_NS, 1);
    (plan.stamps, plan.spin) = (stamps, spin);
    if echo.stream {
        // The request has the same length as a datagram. It ends with the default delimiter for
        // responses.
        plan.protocol.data = Some("x".repeat(63) + "\\n");
    }
    match run(&plan, pending(), |_| {}).await {
        Ok(report) => Ok(found(report)),
        Err(LoadError::Stamps(error)) => Ok(Found::Lacking(error.to_string())),
        Err(error) => Err(error),
    }
}

fn found(report: Report) -> Found {
    if report.histogram.is_empty() {
        let why = report.failures.map_or("no echo arrived".to_owned(), |failures| failures.first);
        return Found::Lacking(why);
    }
    let latency_ns = report.uncorrected_ns;
    let parts = report.split_ns.p50.zip(latency_ns.p50);
    Found::Measured(Box::new(Measured {
        echoes: report.histogram.len(),
        latency_ns,
        schedule_lag_ns: report.schedule_lag_ns,
        median_parts_ns: parts.map(|(parts, p50_ns)| parts.without_lag(p50_ns)),
        stamped: report.stamps,
    }))
}

fn cost_ns<T>(mut one: impl FnMut() -> T) -> f64 {
    let mut means: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..READS).for_each(|_| drop(one()));
            start.elapsed().as_nanos() as f64 / f64::from(READS)
        })
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    means[ROUNDS / 2]
}

const FAR: Ipv4Addr = Ipv4Addr::new(10, 201, 0, 2);
/// The timestamps of the methods over a wire, and whether their threads spin.
const METHODS: [(StampsBy, bool); 4] = [
    (StampsBy::User, true),
    (StampsBy::Kernel, true),
    (StampsBy::Xdp, false),
    (StampsBy::Xdp, true),
];

/// Measures the methods over a veth pair between two network namespaces of this process, because a
/// bypass cannot reach the machine on which it runs. Without root privileges, each method reports
/// that these privileges are missing. Runs to completion even if the caller's future has been
/// dropped.
async fn over_wire() -> Result<Vec<Method>, LoadError> {
    let measuring = blocking(|| match pair() {
        Ok((near, far)) => on(&near, &far),
        Err(error) => {
            let lacking = || Found::Lacking(error.to_string());
            Ok(METHODS.map(|(stamps, spinning)| method(stamps, spinning, lacking())).into())
        }
    });
    measuring.await
}

fn on(near: &Namespace, far: &Namespace) -> Result<Vec<Method>, LoadError> {
    let echo = far.inside(|| Echo::start(false, FAR)).map_err(LoadError::Thread)?;
    // Threads and their sockets belong to the namespace in which they were started.
    near.inside(|| -> io::Result<_> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let found = runtime.block_on(async {
            let mut methods = Vec::new();
            for (stamps, spinning) in METHODS {
                methods.push(method(stamps, spinning, measure(&echo, stamps, spinning).await?));
            }
            Ok(methods)
        });
        drop(echo);
        Ok(found)
    })
    .map_err(LoadError::Thread)?
}

fn method(stamps: StampsBy, spinning: bool, found: Found) -> Method {
    Method { transport: "udp", over: "veth", stamps, spinning, found }
}

const BYTES: usize = 2 << 10;

/// A running echo thread. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Echo {
    pub(super) address: SocketAddr,
    stop: Arc<AtomicBool>,
    pub(super) stream: bool,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Starts an echo thread for UDP, or for TCP with one connection at a time. It runs in the
    /// network namespace of the calling thread.
    pub(super) fn start(stream: bool, at: Ipv4Addr) -> io::Result<Echo> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let builder = thread::Builder::new().name("echo".to_owned());
        let (address, thread) = if stream {
            let listener = TcpListener::bind((at, 0))?;
            (listener.local_addr()?, builder.spawn(move || streams(&listener, &stopped))?)
        } else {
            let socket = UdpSocket::bind((at, 0))?;
            (socket.local_addr()?, builder.spawn(move || datagrams(&socket, &stopped))?)
        };
        Ok(Echo { address, stop, stream, thread: Some(thread) })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread checks `stop` only when something arrives. If no packet can be sent to the
        // thread, it stays blocked.
        let unblocked = if self.stream {
            TcpStream::connect(self.address).map(drop)
        } else {
            UdpSocket::bind("0.0.0.0:0").and_then(|from| from.send_to(&[], self.address).map(drop))
        };
        if unblocked.is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn streams(listener: &TcpListener, stop: &AtomicBool) {
    let mut bytes = [0; BYTES];
    for stream in listener.incoming() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut stream) = stream else { return };
        let _ = stream.set_nodelay(true);
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            if stream.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
    }
}

fn datagrams(socket: &UdpSocket, stop: &AtomicBool) {
    let mut bytes = [0; BYTES];
    while let Ok((count, from)) = socket.recv_from(&mut bytes) {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // This fails if the sender has closed its socket.
        let _ = socket.send_to(&bytes[..count], from);
    }
}
