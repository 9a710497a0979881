//! SHA-256 of open files.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use sha2::{Digest, Sha256};

/// Lower case hexadecimal, of the whole file whatever its position is.
pub fn sha256(mut file: &File) -> io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = Sha256::new();
    // Small enough to stay in the nearest cache between the copy and the hash: 256 KiB take half as long again.
    let mut chunk = vec![0_u8; 32 << 10];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => hasher.update(chunk.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
