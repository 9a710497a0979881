//! `run MODEL [PROMPT]`: a model in the terminal. With a prompt, or with text piped in, one answer; else a chat.

use std::io::{IsTerminal, Read};

use clap::{Arg, ArgAction};
use onebit_worker::{Host, HostConfig};

use super::{Command, Invocation, open};
use crate::chat::answer::{cut, describe, show};
use crate::chat::{Chat, Taste, loading, terminal};
use crate::exit::{Exit, Failure};
use crate::output::{self, note};
use crate::settings::table;

/// Most text that is taken from a pipe, bytes.
const INPUT_MAX: u64 = 16 << 20;

pub(super) static COMMAND: Command = Command {
    arguments: |command| {
        command
            .arg(Arg::new("model").value_name("MODEL").required(true).help("Name of a model"))
            .arg(
                Arg::new("prompt")
                    .value_name("PROMPT")
                    .num_args(0..)
                    .help("What to ask; without it a chat begins. Text piped in is put behind it"),
            )
            .arg(
                Arg::new("raw")
                    .long("raw")
                    .action(ArgAction::SetTrue)
                    .help("Continue the text as it is, without the model's chat template"),
            )
    },
    // A person reads an answer here, not the log of a plugin. What ends an answer reaches them as an error.
    log: "off",
    ..Command::new("run", "Talk to a model in the terminal", run)
};

fn run(invocation: &Invocation<'_>) -> Result<(), Failure> {
    let matches = invocation.matches;
    let name = matches.get_one::<String>("model").cloned().unwrap_or_default();
    let raw = matches.get_flag("raw");
    let question = question(matches.get_many::<String>("prompt").map(|words| words.cloned().collect::<Vec<_>>().join(" ")))?;
    if question.is_none() && raw {
        return Err(
            Failure::new(Exit::Usage, "--raw continues a text and none was given").next("Give it as an argument or through a pipe.")
        );
    }
    let (runtime, host) = open::with_runtime(config(invocation)?, open::runtime()?)?;
    let taste = taste(invocation, &host, &name)?;
    let lease = runtime.block_on(loading::load(&host, &name))?;
    if let Some(note_of_choice) = &lease.spec().fallback_note {
        note(format!("note: {note_of_choice}"));
    }
    let mut chat = Chat::new(lease, taste, raw)?;
    let done = match question {
        Some(question) => once(&runtime, &mut chat, &question, invocation.verbose),
        None => terminal::talk(&runtime, &mut chat, invocation.places.state.clone(), invocation.verbose),
    };
    drop(chat);
    runtime.block_on(host.drain(std::time::Duration::from_secs(1)));
    done
}

/// One person asks one thing at a time: more than one slot would only cost memory.
fn config(invocation: &Invocation<'_>) -> Result<HostConfig, Failure> {
    let config = open::config(invocation)?;
    Ok(HostConfig { slots: if config.slots == 0 { 1 } else { config.slots }, ..config })
}

fn taste(invocation: &Invocation<'_>, host: &Host, name: &str) -> Result<Taste, Failure> {
    let settings = &invocation.settings;
    let model = host.model(name)?;
    Ok(Taste {
        // An empty text is a word too: no system message, whatever the manifest says.
        system: settings.get(&table::RUN_SYSTEM)?.or(model.chat.system).filter(|text| !text.is_empty()),
        temperature: settings.get(&table::RUN_TEMPERATURE)?,
        seed: settings.get(&table::RUN_SEED)?,
        max_tokens: settings.get(&table::RUN_MAX_TOKENS)?,
        manifest: model.defaults,
    })
}

/// The words of the command line and what is piped in; `None` = a person sits there.
fn question(words: Option<String>) -> Result<Option<String>, Failure> {
    let stdin = std::io::stdin();
    let words = words.filter(|words| !words.trim().is_empty());
    if stdin.is_terminal() {
        return Ok(words);
    }
    let mut piped = Vec::new();
    stdin.lock().take(INPUT_MAX + 1).read_to_end(&mut piped).map_err(|error| Failure::io("read standard input", &error))?;
    if piped.len() as u64 > INPUT_MAX {
        return Err(Failure::new(Exit::Usage, format!("more than {} were piped in", output::bytes(INPUT_MAX)))
            .next("No model takes a prompt of that size; send a part of it."));
    }
    let piped = String::from_utf8(piped).map_err(|_| {
        Failure::new(Exit::Usage, "what was piped in is not UTF-8 text").next("Convert it, for example with iconv -t UTF-8.")
    })?;
    let piped = piped.trim_start_matches('\u{feff}').trim_end();
    match (words, piped.is_empty()) {
        (Some(words), true) => Ok(Some(words)),
        (Some(words), false) => Ok(Some(format!("{words}\n\n{piped}"))),
        (None, false) => Ok(Some(piped.to_owned())),
        (None, true) => Err(Failure::new(Exit::Usage, "nothing was asked: standard input is empty and no prompt was given")
            .next("onebit-host run MODEL \"question\"")),
    }
}

fn once(runtime: &tokio::runtime::Runtime, chat: &mut Chat, question: &str, verbose: bool) -> Result<(), Failure> {
    let request = runtime.block_on(chat.ask(question))?;
    let answer = runtime.block_on(show(&chat.lease, request))?;
    output::line("")?;
    if cut(&answer) {
        note("(cut off: --max-tokens or the end of the context was reached)");
    }
    if verbose {
        describe(&chat.lease, &answer);
    }
    if answer.finished.is_none() { Err(Failure::silent(Exit::Interrupted)) } else { Ok(()) }
}
