//! A server that delays requests at known places by known times, and measures with its own clocks what they took.
//!
//! It reads when data arrived from the timestamp that the network stack attaches to it, so the time before the read is
//! known to it, too, wakeup included.

use std::hint::black_box;
use std::io::{IoSliceMut, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::thread::JoinHandle;
use std::time::Duration;

use curtail_probe::app::App;
use curtail_probe::profile::Profile;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use rustix::time::{ClockId, clock_gettime};

/// Where the requests pass; `parsed` and `searched` are below. Where another thread searches, marks need keys.
pub(crate) fn app(program: &str, search: On) -> App {
    let [first, second] = if search == On::Other { ["key = 1", "key = 0"] } else { [""; 2] };
    let text = format!(
        "name = 'injected'\nresponse = 'respond'\n[[mark]]\nstage = 'parse'\n\
         function = '{program}::server::parsed'\nunread = {{ argument = 0, offset = 0 }}\n{first}\n\
         [[mark]]\nstage = 'search'\nfunction = '{program}::server::searched'\n{second}\n"
    );
    App::parse(&text).expect("a description")
}

/// On which thread requests are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    /// That which reads them.
    Same,
    /// A new one for each.
    Other,
}

/// All requests have this many bytes.
pub(crate) const REQUEST: usize = 32;

/// Delays of a request before its read, its parsing, its search, its response, in nanoseconds.
pub(crate) type Delays = [u64; 4];

/// When a request arrived, was read, parsed, searched, written, by the monotonic clock. Each has two readings, one on
/// either side of the profiler's stamp: where the machine stands still between them, only the stamp knows which stage
/// has that time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    pub(crate) edges_ns: [[u64; 2]; 5],
}

impl Served {
    /// If it was while the profile was taken; what had begun before is not stamped.
    pub(crate) fn is_in(&self, profile: &Profile) -> bool {
        let (Some(first), Some(last)) = (profile.windows.first(), profile.windows.last()) else {
            return false;
        };
        self.edges_ns[0][0] >= profile.begin_ns + first.start_ns
            && self.edges_ns[4][0] < profile.begin_ns + last.start_ns + last.length_ns
    }
}

#[inline(never)]
pub(crate) fn parsed(unread: &u32, request: u64) -> u64 {
    keep(request) ^ u64::from(*unread)
}

#[inline(never)]
pub(crate) fn searched(request: u64) -> u64 {
    keep(request) ^ 2
}

/// A call, so that the marks have an instruction that is cheap to probe.
#[inline(never)]
fn keep(request: u64) -> u64 {
    black_box(request)
}

pub(crate) fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

fn spin(from_ns: u64, nanos: u64) -> u64 {
    loop {
        let now = monotonic_ns();
        if now >= from_ns + nanos {
            return now;
        }
        std::hint::spin_loop();
    }
}

/// Serves the first client until it leaves. `delays` gives those of the requests in turn; only a read's first has one
/// before the read.
pub(crate) fn serve(
    search: On,
    mut delays: impl FnMut() -> Delays + Send + 'static,
    set_up: impl FnOnce() + Send + 'static,
) -> (SocketAddr, JoinHandle<Vec<Served>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    let address = listener.local_addr().expect("it is bound");
    let thread = std::thread::spawn(move || {
        set_up();
        let (mut connection, _) = listener.accept().expect("a client");
        connection.set_nodelay(true).expect("an option");
        setsockopt(&connection, sockopt::ReceiveTimestampns, &true).expect("an option");
        let mut served = Vec::new();
        loop {
            let mut files = [rustix::event::PollFd::new(&connection, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut files, None).expect("polled");
            let mut next = delays();
            spin(monotonic_ns(), next[0]);
            let Some((requests, arrived, read)) = read(&mut connection) else {
                return served;
            };
            for request in 0..requests {
                let before = if request == 0 { read[1] } else { monotonic_ns() };
                let second = spin(before, next[1]);
                let id = served.len() as u64;
                black_box(parsed(&(((requests - request) * REQUEST) as u32), id));
                let parsed = [second, monotonic_ns()];
                let third = spin(second, next[2]);
                let search_it = move || {
                    black_box(searched(id));
                };
                match search {
                    On::Same => search_it(),
                    On::Other => std::thread::spawn(search_it).join().expect("it ends"),
                }
                let searched = [third, monotonic_ns()];
                let fourth = spin(third, next[3]);
                let response = [b'r'; REQUEST];
                connection.write_all(&response).expect("the client reads");
                let written = [fourth, monotonic_ns()];
                served.push(Served { edges_ns: [arrived, read, parsed, searched, written] });
                if request + 1 < requests {
                    next = delays();
                }
            }
        }
    });
    (address, thread)
}

/// Whole requests, when the last packet arrived, and when it was read.
fn read(connection: &mut TcpStream) -> Option<(usize, [u64; 2], [u64; 2])> {
    let mut buffer = [0; 64 * REQUEST];
    let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let mut slices = [IoSliceMut::new(&mut buffer)];
    let before_ns = monotonic_ns();
    let message =
        recvmsg::<()>(connection.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::empty());
    let read_ns = monotonic_ns();
    let now = nanoseconds(ClockId::Realtime);
    let after_ns = monotonic_ns();
    let message = message.ok()?;
    let arrived = message.cmsgs().ok()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampns(time) => Some(Duration::from(time).as_nanos() as u64),
        _ => None,
    });
    // The first packets may have none, because the network stack begins to timestamp a moment after it is asked to.
    let (bytes, waited) = (message.bytes, now.saturating_sub(arrived.unwrap_or(now)));
    assert_eq!(bytes % REQUEST, 0, "clients write whole requests at once");
    let arrived = [read_ns - waited, after_ns - waited];
    (bytes > 0).then_some((bytes / REQUEST, arrived, [before_ns, read_ns]))
}

/// A client that sends the next request when it has the last response, until `goes_on` is false.
pub(crate) fn request(address: SocketAddr, mut goes_on: impl FnMut() -> bool) {
    let mut connection = TcpStream::connect(address).expect("connected");
    connection.set_nodelay(true).expect("an option");
    let mut buffer = [0; REQUEST];
    while goes_on() {
        connection.write_all(&[b'q'; REQUEST]).expect("sent");
        connection.read_exact(&mut buffer).expect("received");
    }
}
