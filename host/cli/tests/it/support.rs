//! A user with an empty home, and what the program says to them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// A fresh user.
pub struct User {
    home: TempDir,
}

/// What a run said.
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Fails with everything that was said.
    #[track_caller]
    pub fn ends_with_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "\n--- stdout\n{}\n--- stderr\n{}", self.out, self.err);
        self
    }
}

impl User {
    pub fn new() -> Self {
        Self { home: tempfile::tempdir().expect("a folder") }
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn models(&self) -> PathBuf {
        self.home().join("models")
    }

    /// The program with nothing of the real user's environment.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onebit-host"));
        self.dress(&mut command);
        command
    }

    /// Takes the environment of the real user away.
    pub fn dress(&self, command: &mut Command) {
        command
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null());
    }

    pub fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command().args(args).output().expect("the program runs"))
    }

    /// `run` with the models folder of this user.
    pub fn pull(&self, args: &[&str]) -> Said {
        let models = self.models();
        let mut all = vec!["pull", "--models-dir", models.to_str().expect("UTF-8")];
        all.extend(args);
        self.run(&all)
    }

    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::File::create(&path).and_then(|mut file| file.write_all(text.as_ref())).expect("a file");
        path
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A model file that is none: the right first bytes and then noise that compresses badly.
pub fn model_bytes(length: usize) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A model file with one weight, whose header can be read.
pub fn small_gguf() -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    let text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend([1_u64, 1].map(u64::to_le_bytes).concat());
    text(&mut bytes, "general.architecture");
    bytes.extend(8_u32.to_le_bytes());
    text(&mut bytes, "llama");
    text(&mut bytes, "token_embd.weight");
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(32_u64.to_le_bytes());
    bytes.extend(2_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(32) + 18, 0);
    bytes
}
