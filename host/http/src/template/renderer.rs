//! The front's side of template processes: a few are kept, each serves one request at a time, and one that fails is thrown away.
//!
//! A process is started when a chat needs one, in some milliseconds; afterwards a rendering costs two trips through a pipe. A request that is
//! dropped takes its process with it, because the answer in the pipe would be the next request's.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use onebit_engine::PromptPart;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Semaphore;

use super::conversation::Conversation;
use super::process::{Answer, Ask, MAX_FRAME, ROLE, header};
use super::{TemplateError, TemplateSource};

/// Renderings at a time. They take a millisecond; more would only help a flood.
const PROCESSES: usize = 4;
/// A rendering of the longest conversation takes a second or two; a template that takes longer does not end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Renders chat templates in processes.
#[derive(Debug)]
pub struct Renderer {
    exe: PathBuf,
    idle: Mutex<Vec<Process>>,
    turns: Semaphore,
}

#[derive(Debug)]
struct Process {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Renderer {
    /// With this program, which calls [`super::render_main`] when its first argument is [`ROLE`].
    pub fn new(exe: PathBuf) -> Self {
        Self { exe, idle: Mutex::default(), turns: Semaphore::new(PROCESSES) }
    }

    /// The prompt for a conversation.
    pub async fn render(
        &self,
        model: String,
        source: TemplateSource,
        conversation: Conversation,
    ) -> Result<Vec<PromptPart>, TemplateError> {
        let _turn = self.turns.acquire().await.map_err(|_| broken("the server is going down"))?;
        let bytes = serde_json::to_vec(&Ask { model, source, conversation }).map_err(broken)?;
        let mut process = match self.rested() {
            Some(process) => process,
            None => Process::start(&self.exe)?,
        };
        match tokio::time::timeout(PATIENCE, process.ask(&bytes)).await {
            Ok(Ok(answer)) => {
                self.lock().push(process);
                answer
            }
            Ok(Err(error)) => {
                tracing::warn!("a template process failed: {error}");
                Err(TemplateError::Refused("the chat template of this model needs too much memory for these messages, or breaks the process it runs in; send fewer messages, or name another template in the model's manifest".to_owned()))
            }
            Err(_) => Err(TemplateError::Refused(format!(
                "the chat template of this model did not end within {} s; send fewer messages, or name another template in the model's manifest",
                PATIENCE.as_secs()
            ))),
        }
    }

    /// A process that waits for work and is still alive.
    fn rested(&self) -> Option<Process> {
        let mut idle = self.lock();
        while let Some(mut process) = idle.pop() {
            if matches!(process.child.try_wait(), Ok(None)) {
                return Some(process);
            }
        }
        None
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Process>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    fn start(exe: &Path) -> Result<Self, TemplateError> {
        let spawned =
            Command::new(exe).arg(ROLE).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn();
        let mut child = spawned.map_err(|error| broken(format!("{} cannot be started: {error}", exe.display())))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else { return Err(broken("it has no pipes")) };
        Ok(Self { child, input, output })
    }

    /// One question, one answer. After an error the process is of no more use.
    async fn ask(&mut self, bytes: &[u8]) -> io::Result<Answer> {
        self.input.write_all(&header(bytes.len())?).await?;
        self.input.write_all(bytes).await?;
        let mut length = [0; 4];
        self.output.read_exact(&mut length).await?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_FRAME {
            return Err(io::Error::other("the answer is too large"));
        }
        let mut answer = vec![0; length];
        self.output.read_exact(&mut answer).await?;
        Ok(serde_json::from_slice(&answer)?)
    }
}

fn broken(why: impl std::fmt::Display) -> TemplateError {
    TemplateError::Process(format!("the process that runs chat templates failed: {why}"))
}
