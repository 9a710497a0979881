//! A refusal: which facts of a plugin do not suit this host, as a table for the person who must act.

use serde::{Deserialize, Serialize};

use crate::text::one_line;

/// One fact that does not suit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalRow {
    /// What was compared: `abi`, `target`, `needed library`, `plugin.toml`.
    pub field: String,
    /// What this host has or wants.
    pub host: String,
    /// What the plugin has or wants.
    pub plugin: String,
    /// What to do.
    pub remedy: String,
}

/// Why a plugin is not used. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The plugin's id if it is known, else the name of its folder.
    pub plugin: String,
    /// Its version, if known.
    pub version: Option<String>,
    /// Every fact that does not suit, in the order of the checks.
    pub rows: Vec<RefusalRow>,
}

impl Refusal {
    pub(crate) fn new(plugin: impl Into<String>, version: Option<String>) -> Self {
        Self { plugin: plugin.into(), version, rows: Vec::new() }
    }

    /// Texts of files, whatever is in them, become lines that a terminal only shows.
    pub(crate) fn row(&mut self, field: impl Into<String>, host: impl Into<String>, plugin: impl Into<String>, remedy: impl Into<String>) {
        let [field, host, plugin, remedy] = [field.into(), host.into(), plugin.into(), remedy.into()].map(|text| one_line(&text));
        self.rows.push(RefusalRow { field, host, plugin, remedy });
    }

    pub(crate) fn one(
        plugin: impl Into<String>,
        field: impl Into<String>,
        host: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let mut refusal = Self::new(plugin, None);
        refusal.row(field, host, found, remedy);
        refusal
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "plugin {}", self.plugin)?;
        if let Some(version) = &self.version {
            write!(f, " {version}")?;
        }
        writeln!(f, " cannot be used:")?;
        let header = ["field", "host", "plugin", "what to do"];
        let rows: Vec<[&str; 4]> =
            self.rows.iter().map(|row| [row.field.as_str(), row.host.as_str(), row.plugin.as_str(), row.remedy.as_str()]).collect();
        let width =
            |column: usize| rows.iter().map(|row| row[column].chars().count()).chain([header[column].len()]).max().unwrap_or_default();
        let widths = [width(0), width(1), width(2)];
        for row in core::iter::once(&header).chain(&rows) {
            writeln!(f, "  {:<a$}  {:<b$}  {:<c$}  {}", row[0], row[1], row[2], row[3], a = widths[0], b = widths[1], c = widths[2])?;
        }
        Ok(())
    }
}

impl core::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::Refusal;

    #[test]
    fn a_files_words_cannot_speak_to_the_terminal_that_shows_the_table() {
        let refusal = Refusal::one("x", "needed library", "not found", "lib\u{1b}[2J.so\nplugin y is fine", "install it");
        assert!(refusal.to_string().contains("lib\\u{1b}[2J.so; plugin y is fine"), "{refusal}");
        assert!(!refusal.to_string().contains('\u{1b}'));
    }
}
