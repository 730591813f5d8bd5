//! Servers and clients that misbehave in every way, and notice if a proxy between them does.
//!
//! `storm serve ADDRESS…` starts servers that echo the target and the body of a request. Some responses
//! are late, long, refused or broken off, some connections are reset, and every second another
//! server is killed or paused for a while. `GET /seen` returns how many POST requests came, and how
//! many of them came twice.
//!
//! `storm send ADDRESS FIRST REQUESTS CONNECTIONS` sends requests, whose numbers begin with FIRST. Some are
//! cut at a random place, and the client leaves before some responses. It prints what came back. `wrong` counts responses to another request,
//! and `silent` those that took more than 20 s.

use std::collections::HashSet;
use std::error::Error;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

type Failure = Box<dyn Error + Send + Sync>;

const USAGE: &str = "usage: storm serve ADDRESS… | send ADDRESS FIRST REQUESTS CONNECTIONS";

/// How long a client waits for a response.
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &arguments[..] {
        [verb, addresses @ ..] if verb == "serve" && !addresses.is_empty() => {
            runtime.block_on(serve(addresses))
        }
        [verb, to, first, requests, connections] if verb == "send" => {
            let first: u64 = first.parse()?;
            let numbers = first..first + requests.parse::<u64>()?;
            runtime.block_on(send(to.parse()?, numbers, connections.parse()?))
        }
        _ => Err(USAGE.into()),
    }
}

/// Draws from 0 up to `n`.
fn below(rng: &mut Pcg64Mcg, n: u64) -> u64 {
    rng.next_u64() % n
}

/// POST requests, by their numbers.
#[derive(Default)]
struct Seen {
    posts: HashSet<u64>,
    twice: u64,
}

/// What happens to a server.
#[derive(Default)]
struct Mood {
    /// Connections of earlier generations are reset.
    generation: AtomicU64,
    /// Whether it is down (1) or paused (2).
    state: AtomicU64,
}

async fn serve(addresses: &[String]) -> Result<(), Failure> {
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let mut moods = Vec::new();
    for address in addresses {
        let listener = TcpListener::bind(address).await?;
        let (seen, mood) = (Arc::clone(&seen), Arc::<Mood>::default());
        moods.push(Arc::clone(&mood));
        tokio::spawn(async move {
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                if mood.state.load(Ordering::Relaxed) == 1 {
                    continue;
                }
                let (seen, mood) = (Arc::clone(&seen), Arc::clone(&mood));
                let rng = Pcg64Mcg::new(number);
                // An error means that the client has left, or that the server is killed.
                tokio::spawn(async move { connection(stream, &seen, &mood, rng).await.ok() });
            }
        });
    }
    println!("listening");
    let mut rng = Pcg64Mcg::new(7);
    loop {
        sleep(Duration::from_secs(1)).await;
        let mood = &moods[below(&mut rng, moods.len() as u64) as usize];
        mood.state.store(1 + below(&mut rng, 2), Ordering::Relaxed);
        if mood.state.load(Ordering::Relaxed) == 1 {
            mood.generation.fetch_add(1, Ordering::Relaxed);
        }
        sleep(Duration::from_millis(200)).await;
        mood.state.store(0, Ordering::Relaxed);
    }
}

/// The head of a message.
struct Head {
    first: String,
    length: Option<usize>,
}

async fn head(stream: &mut BufReader<TcpStream>) -> Result<Head, Failure> {
    let (mut first, mut length, mut line) = (String::new(), None, String::new());
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err("the end".into());
        }
        let text = line.trim_end();
        if text.is_empty() {
            return Ok(Head { first, length });
        }
        if first.is_empty() {
            text.clone_into(&mut first);
        }
        if let Some(value) = text.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = Some(value.parse()?);
        }
    }
}

async fn connection(
    stream: TcpStream,
    seen: &Mutex<Seen>,
    mood: &Mood,
    mut rng: Pcg64Mcg,
) -> Result<(), Failure> {
    let mut stream = BufReader::new(stream);
    let born = mood.generation.load(Ordering::Relaxed);
    loop {
        let Head { first, length } = head(&mut stream).await?;
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await?;
        let mut words = first.split(' ');
        let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let mut echo = [target.as_bytes(), b"|", &body].concat();
        if target == "/seen" {
            let seen = seen.lock().expect("no panic");
            echo = format!("posts={} twice={}", seen.posts.len(), seen.twice).into_bytes();
        } else if method == "POST" {
            let number = target.trim_start_matches('/').parse()?;
            let mut seen = seen.lock().expect("no panic");
            seen.twice += u64::from(!seen.posts.insert(number));
        }
        let luck = below(&mut rng, 1_000);
        if target != "/seen" && luck < 10 {
            sleep(Duration::from_millis(100)).await;
        }
        while mood.state.load(Ordering::Relaxed) == 2 {
            sleep(Duration::from_millis(10)).await;
        }
        if mood.generation.load(Ordering::Relaxed) != born || luck == 11 {
            return Ok(());
        }
        match luck {
            12 | 13 => {
                stream.write_all(b"HTTP/1.1 503 Any\r\ncontent-length: 0\r\n\r\n").await?;
                continue;
            }
            14..24 => echo.resize(300_000, b'x'),
            24..74 => echo.resize(echo.len() + 20_000, b'x'),
            _ => {}
        }
        let whole =
            if luck == 15 || luck == 25 || luck == 75 { echo.len() + 9 } else { echo.len() };
        let is_chunked = whole == echo.len() && luck % 20 == 19;
        let head = match is_chunked {
            true => format!("HTTP/1.1 200 Any\r\ntransfer-encoding: chunked\r\n\r\n{whole:x}\r\n"),
            false => format!("HTTP/1.1 200 Any\r\ncontent-length: {whole}\r\n\r\n"),
        };
        let end: &[u8] = if is_chunked { b"\r\n0\r\n\r\n" } else { b"" };
        stream.write_all(&[head.as_bytes(), &echo, end].concat()).await?;
        if whole > echo.len() {
            return Ok(());
        }
    }
}

/// What clients have seen.
#[derive(Default)]
struct Counts {
    next: AtomicU64,
    good: AtomicU64,
    bad: AtomicU64,
    broken: AtomicU64,
    cut: AtomicU64,
    wrong: AtomicU64,
    silent: AtomicU64,
}

async fn send(to: SocketAddr, numbers: Range<u64>, connections: u64) -> Result<(), Failure> {
    let Range { start, end } = numbers;
    let counts = Arc::new(Counts { next: start.into(), ..Counts::default() });
    let clients: Vec<_> = (0..connections)
        .map(|client| {
            let counts = Arc::clone(&counts);
            tokio::spawn(async move {
                let mut rng = Pcg64Mcg::new(client.into());
                while counts.next.load(Ordering::Relaxed) < end {
                    if session(to, &counts, &mut rng).await.is_err() {
                        counts.broken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for client in clients {
        client.await?;
    }
    let Counts { next, good, bad, broken, cut, wrong, silent } = &*counts;
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "sent={} good={} bad={} broken={} cut={} wrong={} silent={}",
        of(next) - start,
        of(good),
        of(bad),
        of(broken),
        of(cut),
        of(wrong),
        of(silent)
    );
    Ok(())
}

/// Sends requests on one connection.
async fn session(to: SocketAddr, counts: &Counts, rng: &mut Pcg64Mcg) -> Result<(), Failure> {
    let add = |count: &AtomicU64| count.fetch_add(1, Ordering::Relaxed);
    let mut stream = BufReader::new(TcpStream::connect(to).await?);
    for _ in 0..1 + below(rng, 60) {
        let number = add(&counts.next);
        let size = [0, 0, 0, 0, 0, 0, 0, 3, 1_000, 100_000][below(rng, 10) as usize];
        let method = if size == 0 { "GET" } else { ["PUT", "POST"][below(rng, 2) as usize] };
        let body = vec![b'b'; size];
        let head =
            format!("{method} /{number} HTTP/1.1\r\nhost: storm\r\ncontent-length: {size}\r\n\r\n");
        let mut request = [head.as_bytes(), &body].concat();
        let (cuts, leaves) = (below(rng, 100) == 0, below(rng, 50) == 0);
        if cuts {
            request.truncate(below(rng, request.len() as u64) as usize);
        }
        stream.write_all(&request).await?;
        if cuts || leaves {
            add(&counts.cut);
            sleep(Duration::from_millis(below(rng, 50))).await;
            return Ok(());
        }
        let Ok(response) = timeout(PATIENCE, receive(&mut stream)).await else {
            add(&counts.silent);
            return Ok(());
        };
        let (status, received) = response?;
        let expected = [format!("/{number}|").as_bytes(), &body].concat();
        if status != 200 {
            add(&counts.bad);
        } else if received.starts_with(&expected) {
            add(&counts.good);
        } else {
            add(&counts.wrong);
        }
    }
    Ok(())
}

/// Receives the status and the body of a response.
async fn receive(stream: &mut BufReader<TcpStream>) -> Result<(u16, Vec<u8>), Failure> {
    let Head { first, length } = head(stream).await?;
    let status = first.split(' ').nth(1).unwrap_or("").parse()?;
    let mut body = Vec::new();
    if let Some(length) = length {
        body.resize(length, 0);
        stream.read_exact(&mut body).await?;
        return Ok((status, body));
    }
    loop {
        let mut size = String::new();
        stream.read_line(&mut size).await?;
        let size = usize::from_str_radix(size.trim_end(), 16)?;
        let start = body.len();
        body.resize(start + size + 2, 0);
        stream.read_exact(&mut body[start..]).await?;
        body.truncate(start + size);
        if size == 0 {
            return Ok((status, body));
        }
    }
}
