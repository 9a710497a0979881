//! The chat at a terminal: a line, an answer, a line.

use std::path::PathBuf;

use rustyline::error::ReadlineError;
use tokio::runtime::Runtime;

use super::Chat;
use super::answer::{cut, describe, show};
use super::history::History;
use crate::exit::{Exit, Failure};
use crate::output::{self, note};

const HELP: &str = "\
/system TEXT   set the system message (without TEXT: take it away)
/clear         forget what was said so far
/help          this list
/bye           end (also Ctrl-D)
Ctrl-C stops an answer. A line that shall begin with / gets a space before it.";

/// A line that begins with a slash.
#[derive(Debug, PartialEq, Eq)]
enum Order<'a> {
    Bye,
    Help,
    Clear,
    System(&'a str),
    Unknown(&'a str),
    /// Not an order: something to say.
    Say(&'a str),
    Nothing,
}

impl<'a> Order<'a> {
    fn read(line: &'a str) -> Self {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return Self::Nothing;
        }
        // The line as typed decides: a space before the slash makes it something to say.
        if !line.starts_with('/') {
            return Self::Say(trimmed);
        }
        let (word, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
        match word {
            "/bye" | "/exit" | "/quit" => Self::Bye,
            "/help" | "/?" => Self::Help,
            "/clear" => Self::Clear,
            "/system" => Self::System(rest.trim()),
            other => Self::Unknown(other),
        }
    }
}

/// Talks until the person has had enough.
pub fn talk(runtime: &Runtime, chat: &mut Chat, history_folder: Option<PathBuf>, verbose: bool) -> Result<(), Failure> {
    let mut history = History::open(history_folder)?;
    note("Type a message; /help lists what else there is, Ctrl-D ends.");
    loop {
        let line = match history.editor.readline(">>> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                note("(/bye or Ctrl-D ends)");
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(Failure::new(Exit::Other, format!("cannot read from this terminal: {error}"))),
        };
        if !line.trim().is_empty() {
            history.add(&line);
        }
        match Order::read(&line) {
            Order::Nothing => {}
            Order::Bye => return Ok(()),
            Order::Help => note(HELP),
            Order::Clear => {
                chat.clear();
                note("(forgotten)");
            }
            Order::System("") => {
                chat.set_system(None);
                note("(no system message)");
            }
            Order::System(text) => {
                chat.set_system(Some(text.to_owned()));
                note("(system message set)");
            }
            Order::Unknown(word) => note(format!("there is no {word}; /help lists what there is")),
            Order::Say(text) => say(runtime, chat, text, verbose)?,
        }
    }
}

/// One question and its answer. An answer that fails is told, and the chat goes on; only a terminal that is gone ends it.
fn say(runtime: &Runtime, chat: &mut Chat, text: &str, verbose: bool) -> Result<(), Failure> {
    let request = match runtime.block_on(chat.ask(text)) {
        Ok(request) => request,
        Err(failure) => {
            failure.report(verbose);
            return Ok(());
        }
    };
    match runtime.block_on(show(&chat.lease, request)) {
        Ok(answer) => {
            output::line("")?;
            chat.answered(&answer.text);
            if answer.finished.is_none() {
                note("(stopped)");
            }
            if cut(&answer) {
                note("(cut off: --max-tokens or the end of the context was reached)");
            }
            if verbose {
                describe(&chat.lease, &answer);
            }
            Ok(())
        }
        Err(failure) if failure.what().is_empty() => Err(failure),
        Err(failure) => {
            output::line("")?;
            chat.answered("");
            failure.report(verbose);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_begin_with_a_slash_and_everything_else_is_said() {
        for (line, order) in [
            ("", Order::Nothing),
            ("   ", Order::Nothing),
            ("hello ", Order::Say("hello")),
            (" /bye is a word", Order::Say("/bye is a word")),
            ("/bye", Order::Bye),
            ("/clear", Order::Clear),
            ("/system be brief ", Order::System("be brief")),
            ("/system", Order::System("")),
            ("/sytem x", Order::Unknown("/sytem")),
        ] {
            assert_eq!(Order::read(line), order, "{line:?}");
        }
    }
}
