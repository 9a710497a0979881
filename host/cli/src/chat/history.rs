//! What was typed before, kept between chats in the user's state folder.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use rustyline::history::FileHistory;
use rustyline::{Config, EditMode, Editor};

use crate::exit::{Exit, Failure};
use crate::output::note;

/// Lines that are kept.
const LINES: usize = 1000;

/// The line editor with its history.
pub struct History {
    /// Reads lines.
    pub editor: Editor<(), FileHistory>,
    file: Option<PathBuf>,
}

impl History {
    /// Reads what there is. A history that cannot be kept is said once and is no reason not to talk.
    pub fn open(folder: Option<PathBuf>) -> Result<Self, Failure> {
        let config = Config::builder().max_history_size(LINES).and_then(|config| config.history_ignore_dups(true));
        let config = config.map_err(editor_failed)?.edit_mode(EditMode::Emacs).auto_add_history(false).build();
        let mut editor: Editor<(), FileHistory> = Editor::with_config(config).map_err(editor_failed)?;
        let Some(folder) = folder else { return Ok(Self { editor, file: None }) };
        let file = folder.join("history");
        let prepared = std::fs::create_dir_all(&folder).and_then(|()| {
            // Only the user may read what was said.
            OpenOptions::new().create(true).append(true).mode(0o600).open(&file).map(drop)
        });
        match prepared {
            Ok(()) => {
                if let Err(error) = editor.load_history(&file) {
                    note(format!("{} cannot be read ({error}); this chat begins without history", file.display()));
                }
                Ok(Self { editor, file: Some(file) })
            }
            Err(error) => {
                note(format!("what you type is not kept: {}: {error}", file.display()));
                Ok(Self { editor, file: None })
            }
        }
    }

    /// Adds a line, on disk too: a chat that is killed loses nothing.
    pub fn add(&mut self, line: &str) {
        let added = self.editor.add_history_entry(line);
        if let (Ok(true), Some(file)) = (added, &self.file)
            && let Err(error) = self.editor.append_history(file)
        {
            note(format!("what you type is not kept any more: {}: {error}", file.display()));
            self.file = None;
        }
    }
}

fn editor_failed(error: rustyline::error::ReadlineError) -> Failure {
    Failure::new(Exit::Other, format!("cannot read from this terminal: {error}"))
        .next("Give the question as an argument: onebit-host run MODEL \"question\"")
}
