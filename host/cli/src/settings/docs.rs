//! `docs/settings.md` and `docs/exit-codes.md`, made from the tables. A test compares the files with what is made here.

use std::fmt::Write;

use super::row::{Commands, Fallback};
use super::table::TABLE;
use super::value::Shape;
use crate::exit;

/// `docs/settings.md`.
pub fn settings() -> String {
    let mut text = String::from(
        "# Settings\n\n\
         <!-- Made by `onebit-host docs settings`; change host/cli/src/settings/table.rs instead. -->\n\n\
         A setting can be given as a flag, in the environment, or in a configuration file. The first that has it wins, in this order: flag,\n\
         environment, the file named with `--config`, `$XDG_CONFIG_HOME/onebit/config.toml`, `/etc/onebit/config.toml`, default.\n\
         `onebit-host config` prints every value that holds and who said so.\n\n\
         Configuration files are TOML. A dotted key such as `hub.endpoint` may be written in a section (`[hub]`). A key that does not exist, or a\n\
         value that cannot be read, is an error with file and line; nothing is started with half a configuration. In the environment a list of\n\
         folders is separated by `:`, any other list by `,`; a switch takes `true` or `false`; an empty variable counts as not set.\n\
         Times: `250ms`, `30s`, `5m`, `2h`, `30d`, `forever`. Sizes: `512KiB`, `4MiB`, `1.5GiB`.\n",
    );
    let mut group = "";
    for row in TABLE {
        if row.group() != group {
            group = row.group();
            let _ =
                write!(text, "\n## {group}\n\n| key | flag | environment | default | commands | meaning |\n|---|---|---|---|---|---|\n");
        }
        let key = if row.in_file() { format!("`{}`", row.key()) } else { "(not in a file)".to_owned() };
        let flag = match row.shape() {
            Shape::Switch => format!("`--{}`", row.flag()),
            Shape::One | Shape::List(_) => format!("`--{} {}`", row.flag(), row.placeholder()),
        };
        let environment: Vec<String> = row.env().iter().map(|name| format!("`{name}`")).collect();
        let default = match row.fallback() {
            Fallback::Unset if row.shape() == Shape::Switch => "`false`".to_owned(),
            Fallback::Unset => "not set".to_owned(),
            Fallback::Text(text) => format!("`{text}`"),
            Fallback::Computed(_, rule) => format!("`{rule}`"),
        };
        let commands = match row.commands() {
            Commands::Every => "all".to_owned(),
            Commands::Only(names) => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        };
        let line =
            [key, flag, environment.join(", "), default, commands, row.help().to_owned()].map(|cell| cell.replace('|', "\\|")).join(" | ");
        let _ = writeln!(text, "| {line} |");
    }
    text
}

/// `docs/exit-codes.md`.
pub fn exit_codes() -> String {
    let mut text = String::from(
        "# Exit codes\n\n<!-- Made by `onebit-host docs exit-codes`; change host/cli/src/exit/mod.rs instead. -->\n\n\
         A script can rely on these numbers; the words of a message may change.\n\n| code | meaning |\n|---|---|\n",
    );
    for row in exit::TABLE {
        let _ = writeln!(text, "| {} | {} |", row.code, row.meaning);
    }
    text
}

#[cfg(test)]
mod tests {
    fn same(file: &str, made: &str) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        let name = file.trim_end_matches(".md");
        assert!(written == made, "docs/{file} is out of date; run: onebit-host docs {name} > docs/{file}");
    }

    #[test]
    fn the_written_settings_are_those_of_the_table() {
        same("settings.md", &super::settings());
    }

    #[test]
    fn the_written_exit_codes_are_those_of_the_table() {
        same("exit-codes.md", &super::exit_codes());
    }

    #[test]
    fn the_written_findings_of_plugin_check_are_those_of_the_table() {
        same("plugin-check.md", &onebit_loader::check::codes::page());
    }

    #[test]
    fn the_written_cases_of_plugin_test_are_those_of_the_table() {
        same("plugin-test.md", &onebit_kit::page());
    }
}
