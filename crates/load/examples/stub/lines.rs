//! Line-based protocols. Each connection handles one request at a time.

use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::Failure;
use crate::truth::Truth;

/// Serves one connection. Supports only memcached's `get`, and only Redis commands whose strings
/// contain no line ending.
pub(crate) async fn serve(
    protocol: &str,
    stream: TcpStream,
    truth: Arc<Truth>,
) -> Result<(), Failure> {
    let mut lines = BufReader::new(stream).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = match protocol {
            "http1" if line.is_empty() => "HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nok".to_owned(),
            "http1" => continue,
            "memcached" => {
                let key = line.strip_prefix("get ").ok_or("only get is supported")?;
                format!("VALUE {key} 0 2\r\nok\r\nEND\r\n")
            }
            "redis" => {
                let words: usize = line.strip_prefix('*').ok_or("not a command")?.parse()?;
                for _ in 0..2 * words {
                    lines.next_line().await?.ok_or("half a command")?;
                }
                "$2\r\nok\r\n".to_owned()
            }
            "tcp" => line + "\n",
            other => return Err(format!("unsupported command `{other}`").into()),
        };
        let read = Instant::now();
        truth.delay(read).await;
        lines.get_mut().get_mut().write_all(answer.as_bytes()).await?;
        truth.answered(read);
    }
    Ok(())
}
