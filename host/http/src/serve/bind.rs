//! Opening listeners, with errors that say what is in the way.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use tokio::net::{TcpListener, UnixListener, UnixStream};

use super::{ServeError, SocketFile};
use crate::config::{Listen, is_loopback};
use crate::gate::Via;

/// Bytes of a socket path that Linux takes.
const MAX_SOCKET_PATH: usize = 107;

/// An open listener.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpListener, Listen),
    Unix(UnixListener, SocketFile),
}

impl Socket {
    pub(super) async fn bind(listen: &Listen) -> Result<Self, ServeError> {
        match listen {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).await.map_err(|error| failed(listen, &error))?;
                let bound = listener.local_addr().map_err(|error| failed(listen, &error))?;
                Ok(Self::Tcp(listener, Listen::Tcp(bound)))
            }
            Listen::Unix(path) => unix(listen, path).await,
        }
    }

    pub(super) fn address(&self) -> Listen {
        match self {
            Self::Tcp(_, address) => address.clone(),
            Self::Unix(_, file) => Listen::Unix(file.0.clone()),
        }
    }

    pub(super) fn via(&self) -> Via {
        match self {
            Self::Tcp(_, Listen::Tcp(address)) if is_loopback(address.ip()) => Via::Loopback,
            Self::Tcp(..) => Via::Network,
            Self::Unix(..) => Via::Unix,
        }
    }
}

async fn unix(listen: &Listen, path: &Path) -> Result<Socket, ServeError> {
    let length = path.as_os_str().len();
    if length > MAX_SOCKET_PATH {
        let reason = format!("the path has {length} bytes, a socket path may have {MAX_SOCKET_PATH}; use a shorter one");
        return Err(ServeError::Bind { listen: listen.clone(), reason });
    }
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // A server that was killed leaves its file behind; a live one answers on it.
            match UnixStream::connect(path).await {
                // Other files refuse a connection, too.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && is_socket(path) => {}
                Ok(_) => return Err(ServeError::InUse { listen: listen.clone() }),
                Err(error) => {
                    let reason = format!("{} exists and is not a socket of ours ({error}); remove it or use another path", path.display());
                    return Err(ServeError::Bind { listen: listen.clone(), reason });
                }
            }
            std::fs::remove_file(path).map_err(|error| failed(listen, &error))?;
            UnixListener::bind(path)
        }
        other => other,
    };
    let listener = listener.map_err(|error| failed(listen, &error))?;
    let file = SocketFile(path.to_owned());
    // Who may open the file may use the server: its owner and group.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660)).map_err(|error| failed(listen, &error))?;
    Ok(Socket::Unix(listener, file))
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

fn failed(listen: &Listen, error: &io::Error) -> ServeError {
    let listen = listen.clone();
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => return ServeError::InUse { listen },
        io::ErrorKind::PermissionDenied => "; ports below 1024 and other users' folders need rights this process lacks, choose another",
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address, `ip addr` lists those it has",
        io::ErrorKind::NotFound => "; the folder does not exist, create it",
        _ => "",
    };
    ServeError::Bind { listen, reason: format!("{error}{advice}") }
}
