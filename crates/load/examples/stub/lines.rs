//! Protocols whose requests end at a line: one after the other on a connection.

use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::Failure;
use crate::truth::Truth;

type Lines = BufReader<TcpStream>;

async fn answer(
    lines: &mut Lines,
    read: Instant,
    text: &[u8],
    truth: &Truth,
) -> Result<(), Failure> {
    truth.delay(read).await;
    lines.get_mut().write_all(text).await?;
    truth.answered(read);
    Ok(())
}

/// The next line without its end; none at the end of the connection.
async fn line(lines: &mut Lines) -> Result<Option<String>, Failure> {
    let mut text = String::new();
    let count = lines.read_line(&mut text).await?;
    Ok((count > 0).then(|| text.trim_end().to_owned()))
}

pub(crate) async fn http1(stream: TcpStream, truth: Arc<Truth>) -> Result<(), Failure> {
    let mut lines = BufReader::new(stream);
    while let Some(text) = line(&mut lines).await? {
        if text.is_empty() {
            let text = b"HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nok";
            answer(&mut lines, Instant::now(), text, &truth).await?;
        }
    }
    Ok(())
}

/// Only `get`.
pub(crate) async fn memcached(stream: TcpStream, truth: Arc<Truth>) -> Result<(), Failure> {
    let mut lines = BufReader::new(stream);
    while let Some(text) = line(&mut lines).await? {
        let key = text.strip_prefix("get ").ok_or("only get is served")?;
        let text = format!("VALUE {key} 0 2\r\nok\r\nEND\r\n");
        answer(&mut lines, Instant::now(), text.as_bytes(), &truth).await?;
    }
    Ok(())
}

/// Any command: arrays of strings none of which has a line end.
pub(crate) async fn redis(stream: TcpStream, truth: Arc<Truth>) -> Result<(), Failure> {
    let mut lines = BufReader::new(stream);
    while let Some(text) = line(&mut lines).await? {
        let words: usize = text.strip_prefix('*').ok_or("not a command")?.parse()?;
        for _ in 0..2 * words {
            line(&mut lines).await?.ok_or("half a command")?;
        }
        answer(&mut lines, Instant::now(), b"$2\r\nok\r\n", &truth).await?;
    }
    Ok(())
}

pub(crate) async fn tcp(stream: TcpStream, truth: Arc<Truth>) -> Result<(), Failure> {
    let mut lines = BufReader::new(stream);
    while let Some(text) = line(&mut lines).await? {
        let text = format!("{text}\n");
        answer(&mut lines, Instant::now(), text.as_bytes(), &truth).await?;
    }
    Ok(())
}
