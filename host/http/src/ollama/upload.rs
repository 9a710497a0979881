//! `HEAD` and `POST /api/blobs/{digest}`: files for models that are to be made.
//!
//! A body may be larger than memory, so it goes to the disk as it comes, piece by piece, each within the time that a whole request usually has.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Request, StatusCode, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use super::arrivals;
use super::blobs::{Digest, Upload};
use crate::app::App;
use crate::body::check_encoding;
use crate::errors::{ApiError, Kind};
use crate::gate::Caller;
use crate::keys::Scope;

/// Written at once.
const PIECE: usize = 1 << 20;

/// Whether such a file is here.
pub async fn head(State(app): State<App>, caller: Caller, Path(digest): Path<String>) -> Result<StatusCode, ApiError> {
    caller.require(Scope::Admin)?;
    let digest = read(&digest)?;
    Ok(if arrivals::of(&app)?.blobs().length(&digest).is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND })
}

/// Takes one.
pub async fn post(
    State(app): State<App>,
    caller: Caller,
    Path(digest): Path<String>,
    headers: HeaderMap,
    request: Request<Body>,
) -> Result<StatusCode, ApiError> {
    caller.require(Scope::Admin)?;
    let digest = read(&digest)?;
    check_encoding(&headers)?;
    let arrivals = std::sync::Arc::clone(arrivals::of(&app)?);
    let mut pieces = Pieces { body: request.into_body(), app: &app };
    if let Some(length) = arrivals.blobs().length(&digest) {
        // Clients that send before they listen would take an early answer for a broken line.
        let mut seen = 0;
        while let Some(piece) = pieces.next().await? {
            seen += piece.len() as u64;
            if seen > length {
                return Err(ApiError::invalid("digest", "the bytes are more than the file with this sha256 has; it is here already"));
            }
        }
        return Ok(StatusCode::OK);
    }
    let _room = arrivals.upload()?;
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let begun = std::sync::Arc::clone(&arrivals);
    let mut upload = aside(move || begun.blobs().begin(length)).await?;
    while let Some(piece) = pieces.next().await? {
        upload = aside(move || written(upload, &piece)).await?;
    }
    aside(move || arrivals.blobs().keep(upload, &digest)).await?;
    Ok(StatusCode::CREATED)
}

fn read(digest: &str) -> Result<Digest, ApiError> {
    Digest::parse(digest).ok_or_else(|| {
        let shown: String = digest.chars().take(80).collect();
        ApiError::invalid("digest", format!("the digest {shown:?} must be \"sha256:\" and 64 hexadecimal digits"))
    })
}

fn written(mut upload: Upload, piece: &[u8]) -> Result<Upload, ApiError> {
    upload.write(piece)?;
    Ok(upload)
}

/// On a thread where waiting for a disk hurts nobody.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T, ApiError> + Send + 'static) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ApiError::new(Kind::Internal, "keeping the file failed; please report this with the request id"))?
}

/// A body in large pieces.
struct Pieces<'a> {
    body: Body,
    app: &'a App,
}

impl Pieces<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        let patience = self.app.limits.timeout();
        let mut piece = BytesMut::new();
        while piece.len() < PIECE {
            let frame = tokio::time::timeout(patience, self.body.frame()).await.map_err(|_| {
                ApiError::new(
                    Kind::SlowBody,
                    format!("nothing of the file came within {} s; send it faster or raise the body time limit", patience.as_secs()),
                )
            })?;
            match frame {
                None => break,
                Some(Ok(frame)) => piece.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new())),
                Some(Err(error)) => return Err(ApiError::invalid("digest", format!("the file broke off: {error}; send it again"))),
            }
        }
        Ok((!piece.is_empty()).then(|| piece.freeze()))
    }
}
