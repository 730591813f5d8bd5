//! Asking servers that we have started.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// The body of a GET that is answered with 200.
pub(crate) fn get(address: SocketAddr, target: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {target} HTTP/1.1\r\nhost: xtask\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no head")?;
    anyhow::ensure!(head.starts_with("HTTP/1.1 200"), "{target}: {head}");
    Ok(body.to_owned())
}
