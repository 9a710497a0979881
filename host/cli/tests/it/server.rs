//! An HTTP server that misbehaves on purpose: cuts connections, changes files, knows no ranges, answers with pages.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// How one file is served.
#[derive(Clone, Default)]
pub struct File {
    pub bytes: Vec<u8>,
    pub etag: Option<&'static str>,
    /// Answers to `Range`.
    pub ranges: bool,
    /// Bytes of body after which the first, second, … connection breaks; then none breaks.
    pub cuts: Vec<usize>,
    /// No `Content-Length`: chunked.
    pub chunked: bool,
    pub content_type: Option<&'static str>,
    /// Status of the first, second, … answer instead of the file.
    pub refusals: Vec<&'static str>,
    /// What a hub answers below `/api/`.
    pub listing: Option<String>,
    /// Answer 302 to here, with these further headers.
    pub redirect: Option<(String, Vec<(&'static str, String)>)>,
}

/// What was asked: the first line and the headers, lower case names.
pub type Request = Vec<String>;

pub struct Server {
    address: String,
    file: Arc<Mutex<File>>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub fn start(file: File) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (file, requests) = (Arc::new(Mutex::new(file)), Arc::new(Mutex::new(Vec::new())));
        let shared = (Arc::clone(&file), Arc::clone(&requests));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                std::thread::spawn(move || {
                    // A client that leaves in the middle is part of the tests.
                    let _ = answer(stream, &shared.0, &shared.1);
                });
            }
        });
        Self { address, file, requests }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    pub fn change(&self, change: impl FnOnce(&mut File)) {
        change(&mut self.file.lock().expect("the file"));
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("requests").clone()
    }

    /// A header of one request.
    pub fn header(&self, request: usize, name: &str) -> Option<String> {
        let requests = self.requests();
        requests.get(request)?.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
    }
}

fn answer(stream: TcpStream, file: &Mutex<File>, requests: &Mutex<Vec<Request>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    let mut request = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        request.push(match line.split_once(": ") {
            Some((name, value)) => format!("{}: {value}", name.to_lowercase()),
            None => line,
        });
    }
    requests.lock().expect("requests").push(request.clone());
    let head_only = request[0].starts_with("HEAD");
    let (file, cut, refusal) = {
        let mut shared = file.lock().expect("the file");
        let refusal = if shared.refusals.is_empty() { None } else { Some(shared.refusals.remove(0)) };
        let cut = if head_only || refusal.is_some() || shared.cuts.is_empty() { None } else { Some(shared.cuts.remove(0)) };
        (shared.clone(), cut, refusal)
    };
    if let Some(status) = refusal {
        return write!(out, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nretry-after: 0\r\nconnection: close\r\n\r\n");
    }
    if let Some(listing) = file.listing.as_ref().filter(|_| request[0].starts_with("GET /api/")) {
        return write!(out, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{listing}", listing.len());
    }
    if let Some((to, headers)) = &file.redirect {
        write!(out, "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n")?;
        for (name, value) in headers {
            write!(out, "{name}: {value}\r\n")?;
        }
        return write!(out, "\r\n");
    }
    let header = |name: &str| request.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned));
    let same = header("if-range").is_none_or(|wanted| Some(wanted.as_str()) == file.etag);
    let start = header("range")
        .filter(|_| file.ranges && same)
        .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    let total = file.bytes.len();
    match start {
        Some(start) if start >= total => {
            return write!(
                out,
                "HTTP/1.1 416 Range Not Satisfiable\r\ncontent-range: bytes */{total}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
        }
        Some(start) => write!(out, "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes {start}-{}/{total}\r\n", total - 1)?,
        None => write!(out, "HTTP/1.1 200 OK\r\n")?,
    }
    let body = &file.bytes[start.unwrap_or(0)..];
    if let Some(etag) = file.etag {
        write!(out, "etag: {etag}\r\n")?;
    }
    write!(out, "content-type: {}\r\nconnection: close\r\n", file.content_type.unwrap_or("application/octet-stream"))?;
    if file.chunked {
        write!(out, "transfer-encoding: chunked\r\n\r\n")?;
        for chunk in body.chunks(64 << 10) {
            write!(out, "{:x}\r\n", chunk.len())?;
            out.write_all(chunk)?;
            write!(out, "\r\n")?;
        }
        return write!(out, "0\r\n\r\n");
    }
    write!(out, "content-length: {}\r\n\r\n", body.len())?;
    if head_only {
        return Ok(());
    }
    out.write_all(&body[..cut.unwrap_or(body.len()).min(body.len())])
}
