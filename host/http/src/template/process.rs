//! The process that runs templates: one conversation in, one prompt out, until its input ends.
//!
//! A template is a program from a model file. Fuel bounds what it does in the books of the Jinja machine, but a value that shares parts with
//! itself can be small in the books and endless when it is printed or compared, and a value nested deep enough ends the stack. So it runs
//! where such an end is a value: in a process without sockets or models, with a limit on its memory, which its parent ends when it takes too
//! long.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use onebit_engine::PromptPart;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::conversation::Conversation;
use super::{TemplateError, TemplateSource, Templates};

/// The word on the command line that makes a program of ours this process.
pub const ROLE: &str = "render";

/// Address space of the process: the program itself, the largest conversation a request may hold several times over, and what fuel allows.
const MEMORY: u64 = 2 << 30;
/// Bytes of one message; a request body is at most some tens of mebibytes.
pub(super) const MAX_FRAME: usize = 512 << 20;

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ask {
    pub(super) model: String,
    pub(super) source: TemplateSource,
    pub(super) conversation: Conversation,
}

/// What is answered.
pub(super) type Answer = Result<Vec<PromptPart>, TemplateError>;

/// The process's whole life. Speaks on standard input and output, little-endian length first.
pub fn render_main() -> ExitCode {
    // Where the limit cannot be set (a stricter one is in place already) the parent's patience still bounds the work.
    let _ = setrlimit(Resource::As, Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) });
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    match answer_all(&mut io::stdin().lock(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer_all(input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    let templates = Templates::default();
    while let Some(bytes) = read(input)? {
        let Ask { model, source, conversation } = serde_json::from_slice(&bytes)?;
        drop(bytes);
        let answer: Answer = templates.get(&model, source).and_then(|template| template.render(&conversation));
        let bytes = serde_json::to_vec(&answer)?;
        output.write_all(&header(bytes.len())?)?;
        output.write_all(&bytes)?;
        output.flush()?;
    }
    Ok(())
}

/// The next message; `None` when the parent is gone.
fn read(input: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME {
        return Err(io::Error::other("the message is too large"));
    }
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}

/// The length of a message, as it is sent.
pub(super) fn header(length: usize) -> io::Result<[u8; 4]> {
    match u32::try_from(length) {
        Ok(number) if length <= MAX_FRAME => Ok(number.to_le_bytes()),
        _ => Err(io::Error::other("the message is too large")),
    }
}
