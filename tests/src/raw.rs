//! Bytes on a socket, for requests that no well-behaved client sends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What came back.
#[derive(Debug)]
pub struct Raw {
    /// HTTP status; 0 if the answer had no status line.
    pub status: u16,
    /// Everything before the empty line.
    pub head: String,
    /// Everything after, as it came (not dechunked).
    pub body: Vec<u8>,
}

impl Raw {
    /// A header's value, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<String> {
        self.head.lines().skip(1).find_map(|line| {
            let (known, value) = line.split_once(':')?;
            (known.trim().to_ascii_lowercase() == name).then(|| value.trim().to_owned())
        })
    }
}

/// Opens a connection whose reads give up after 60 s.
pub fn connect(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

/// Sends `bytes` and reads until the server closes. The request should say `Connection: close`.
pub fn exchange(port: u16, bytes: &[u8]) -> Raw {
    let mut socket = connect(port);
    // A server that has seen enough may close before all is written; its answer is what counts.
    let _ = socket.write_all(bytes);
    read(&mut socket)
}

/// Reads an answer until the server closes.
pub fn read(socket: &mut TcpStream) -> Raw {
    let mut all = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => all.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("reading an answer: {error}; so far: {}", String::from_utf8_lossy(&all)),
        }
    }
    let split = all.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(all.len());
    let head = String::from_utf8_lossy(&all[..split]).into_owned();
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    Raw { status, head, body: all.get(split + 4..).unwrap_or_default().to_vec() }
}

/// A POST of JSON with its head; `extra` are whole header lines.
pub fn post(path: &str, extra: &[&str], body: &[u8]) -> Vec<u8> {
    let mut bytes =
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    for line in extra {
        bytes.push_str(line);
        bytes.push_str("\r\n");
    }
    bytes.push_str("\r\n");
    let mut bytes = bytes.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
