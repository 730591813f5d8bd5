//! `curtail agent`: sends parts of the loads that `curtail load --agents` distributes.

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use curtail_load::agents::{Event, TOKEN_BYTES_MAX, Token, serve};
use tokio::net::TcpListener;

use crate::exit::{Stop, bad, lacking};
use crate::{child, run, say};

/// Environment variable that contains the token; `--token-file` takes precedence.
const VARIABLE: &str = "CURTAIL_AGENT_TOKEN";

/// Send a share of the load that `curtail load --agents` requests, one load at a time.
///
/// A coordinator can make an agent send any load to any server in the agent's reach. An agent
/// therefore listens on loopback by default. Any other address requires a token, which is a secret
/// that agents and coordinators share. The connection is not encrypted. If you do not trust the
/// network, leave the agent on loopback and connect through a tunnel such as ssh -L. SIGTERM and
/// SIGINT end the agent and its load.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail agent
  curtail agent --listen 10.0.0.2:7400 --token-file secret
Then, from anywhere:
  curtail load http://10.0.0.9/ --rate 20000 --agents 10.0.0.2:7400,10.0.0.3:7400 --token-file secret")]
pub(crate) struct Args {
    /// Address to listen on for coordinators; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7400")]
    listen: SocketAddr,
    #[command(flatten)]
    token: TokenArgs,
    #[command(flatten)]
    tied: child::Tied,
}

/// The secret that coordinators and agents share.
#[derive(clap::Args)]
pub(crate) struct TokenArgs {
    /// File with the token that agents and coordinators share [default: the environment variable
    /// CURTAIL_AGENT_TOKEN]
    #[arg(long, value_name = "FILE", help_heading = "Sender")]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// Whether `--token-file` is set.
    pub(crate) fn given(&self) -> bool {
        self.token_file.is_some()
    }

    /// Returns the token, if one is set. Error messages never contain it.
    pub(crate) fn token(&self) -> Result<Option<Token>, Stop> {
        let Some(path) = &self.token_file else {
            let Some(text) = std::env::var_os(VARIABLE) else { return Ok(None) };
            let token = Token::new(&text.to_string_lossy());
            return token.map(Some).map_err(|why| bad!("{VARIABLE}: {why}"));
        };
        let shown = path.display();
        let mut text = String::new();
        let read = File::open(path)
            .and_then(|file| file.take(2 * TOKEN_BYTES_MAX as u64).read_to_string(&mut text));
        read.map_err(|error| bad!("--token-file {shown}: {error}; check the path"))?;
        let token = Token::new(&text);
        token.map(Some).map_err(|why| bad!("--token-file {shown}: {why}"))
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let token = args.token.token()?;
    if token.is_none() && !args.listen.ip().is_loopback() {
        return Err(bad!(
            "--listen {}: any host that reaches this address could send loads from here; give a \
             --token-file, or listen on 127.0.0.1",
            args.listen
        ));
    }
    run::on_all_cores(listen(args, token))
}

async fn listen(args: &Args, token: Option<Token>) -> Result<ExitCode, Stop> {
    let mut endings = child::Endings::listen(&args.tied)?;
    let cannot = |error: std::io::Error| {
        lacking!("cannot listen on {}: {error}; give another --listen", args.listen)
    };
    let listener = TcpListener::bind(args.listen).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let known =
        if token.is_some() { "coordinators need the token" } else { "for this machine only" };
    child::announce(&[address], known)?;
    serve(listener, token, endings.next(), |event: Event| say::aside(event)).await;
    Ok(ExitCode::SUCCESS)
}
