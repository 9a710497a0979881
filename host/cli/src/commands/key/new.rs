//! `key new`: makes a key, shows it once, and keeps its hash.

use clap::{Arg, ArgMatches, value_parser};
use onebit_http::keys::{self, Scope};
use toml_edit::{Table, value};

use super::file::KeyFile;
use super::{Sub, name_argument, name_of};
use crate::exit::{Exit, Failure};
use crate::output::{self, note};

/// The limits, as flags and as fields of the file.
const LIMITS: [(&str, &str, &str); 3] = [
    ("requests-per-minute", "requests_per_minute", "Requests that it may begin in a minute"),
    ("tokens-per-minute", "tokens_per_minute", "Tokens that it may read and make in a minute"),
    ("concurrent", "concurrent", "Requests that it may have running at one time"),
];

pub(super) static SUB: Sub = Sub {
    name: "new",
    about: "Make a key, print it once, and keep its hash in the file",
    arguments: |command| {
        let scope = Arg::new("scope")
            .long("scope")
            .value_name("inference|admin")
            .value_parser([Scope::Inference.name(), Scope::Admin.name()])
            .default_value(Scope::Inference.name())
            .help("What it is for: asking models, or also metrics and what others are doing");
        let limits = LIMITS.iter().map(|(flag, field, help)| {
            Arg::new(*field).long(*flag).value_name("N").value_parser(value_parser!(u32).range(1..)).help(*help)
        });
        let priority = Arg::new("priority")
            .long("priority")
            .value_name("low|normal|high")
            .value_parser(["low", "normal", "high"])
            .help("Whose requests go first where requests wait [default: normal]");
        command.arg(name_argument()).arg(scope).args(limits).arg(priority)
    },
    run,
};

fn run(file: KeyFile, matches: &ArgMatches) -> Result<(), Failure> {
    let name = name_of(matches);
    keys::check_name(name).map_err(|reason| Failure::new(Exit::Usage, format!("the command line {reason}")))?;
    let scope = matches.get_one::<String>("scope").map_or(Scope::Inference.name(), String::as_str);
    let secret = secret()?;
    file.change(|entries, written| {
        if entries.iter().any(|entry| entry.name == name) {
            return Err(Failure::new(Exit::Usage, format!("{} has a key named {name:?} already", file.path().display()))
                .next("Choose another name, or remove that key first: onebit-host key remove NAME"));
        }
        let mut entry = Table::new();
        entry.insert("name", value(name));
        entry.insert("sha256", value(keys::hex(&keys::hash(secret.as_bytes()))));
        entry.insert("scope", value(scope));
        for (_, field, _) in LIMITS {
            if let Some(limit) = matches.get_one::<u32>(field) {
                entry.insert(field, value(i64::from(*limit)));
            }
        }
        if let Some(priority) = matches.get_one::<String>("priority") {
            entry.insert("priority", value(priority.as_str()));
        }
        written.push(entry);
        Ok(())
    })?;
    // Only after it opens something.
    output::line(&secret)?;
    note(format!(
        "The key {name:?} ({scope}) is shown this once; {} has only its hash. A running server takes it over within seconds.",
        file.path().display()
    ));
    Ok(())
}

/// 32 bytes of the system's randomness.
fn secret() -> Result<String, Failure> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| Failure::new(Exit::Other, format!("the system gives no random bytes: {error}")))?;
    Ok(format!("ob-{}", keys::hex(&bytes)))
}
