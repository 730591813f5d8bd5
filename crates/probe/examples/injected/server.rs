//! A server that delays requests by known times at known points, and measures the delays with its
//! own clocks.
//!
//! The network stack's timestamp gives it the arrival time of data. It can therefore also measure
//! the time before the read, including the wakeup.

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

/// Describes the marks, which are the functions `parsed` and `searched` below. The marks need keys
/// if the search runs on another thread.
pub(crate) fn app(program: &str, search: On) -> App {
    let [first, second] = if search == On::Other { ["key = 1", "key = 0"] } else { [""; 2] };
    let text = format!(
        "name = 'injected'\nresponse = 'respond'\n[[mark]]\nstage = 'parse'\n\
         function = '{program}::server::parsed'\nunread = {{ argument = 0, offset = 0 }}\n{first}\n\
         [[mark]]\nstage = 'search'\nfunction = '{program}::server::searched'\n{second}\n"
    );
    App::parse("test", &text).expect("a description")
}

/// The thread that runs the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    /// The thread that reads the requests.
    Same,
    /// A new thread for each request.
    Other,
}

/// The length of every request, in bytes.
pub(crate) const REQUEST: usize = 32;

/// The delays of a request before its read, parsing, search and response, in nanoseconds.
pub(crate) type Delays = [u64; 4];

/// The times at which a request arrived, was read, parsed, searched, and written, on the monotonic
/// clock. Each time is read twice, once before and once after the profiler's stamp. If the machine
/// stands still between the two readings, the stage to which the pause belongs depends on when the
/// stamp was taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served {
    pub(crate) edges_ns: [[u64; 2]; 5],
}

impl Served {
    /// Whether the request was served during the profile. Requests that began earlier are not
    /// stamped.
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

/// A separate function, which the functions with the marks call because a call is cheap to probe.
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

/// Serves the first client until it disconnects. `delays` returns the delays of each request. Only
/// the first request in a read is delayed before the read.
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

/// Reads whole requests. Returns the number of requests, the arrival time of the last packet, and
/// the time of the read.
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
    // The first packets may lack a timestamp, because the network stack starts timestamping shortly
    // after it is enabled.
    let (bytes, waited) = (message.bytes, now.saturating_sub(arrived.unwrap_or(now)));
    assert_eq!(bytes % REQUEST, 0, "clients write whole requests at once");
    let arrived = [read_ns - waited, after_ns - waited];
    (bytes > 0).then_some((bytes / REQUEST, arrived, [before_ns, read_ns]))
}

/// Runs a client that sends each request after the response to the previous one has arrived, until
/// `goes_on` returns false.
pub(crate) fn request(address: SocketAddr, mut goes_on: impl FnMut() -> bool) {
    let mut connection = TcpStream::connect(address).expect("connected");
    connection.set_nodelay(true).expect("an option");
    let mut buffer = [0; REQUEST];
    while goes_on() {
        connection.write_all(&[b'q'; REQUEST]).expect("sent");
        connection.read_exact(&mut buffer).expect("received");
    }
}
