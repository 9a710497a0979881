//! What can be wrong with the trust in a plugin's folder: one variant for each finding, and one table that says how serious it is.
//!
//! A problem is data. `inspect` makes rows of a refusal of those that forbid the use, `plugin list --why` and the log show the others, `plugin
//! check` shows all. Nobody parses the sentences; programs read [`Problem::code`].

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Mode;
use crate::RefusalRow;

/// Whether a problem forbids the use of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Said, and nothing more.
    Reported,
    /// The plugin is not loaded.
    Refused,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "code")]
#[non_exhaustive]
pub enum Problem {
    /// Somebody owns it who could not run code as this user otherwise.
    ForeignOwner {
        /// Folder, link or file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// Every user of the machine may change it.
    WorldWritable {
        /// Folder or file.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
    },
    /// A group may change it.
    GroupWritable {
        /// Folder or file.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
        /// The group.
        gid: u32,
    },
    /// A parent folder in which everybody may make entries, but not change those of others (`/tmp`).
    SharedParent {
        /// The folder.
        path: PathBuf,
    },
    /// A link whose target is not in the plugin's folder.
    LeadsOut {
        /// In the plugin's folder.
        name: String,
        /// Where it leads.
        to: PathBuf,
        /// Whether it is something that gets loaded.
        loaded: bool,
    },
    /// Neither a file nor a folder nor a link: a pipe, a socket, a device.
    NotRegular {
        /// In the plugin's folder.
        name: String,
        /// Whether it has the name of something that gets loaded.
        loaded: bool,
    },
    /// It could not be looked at.
    Unreadable {
        /// Folder or file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// The folder holds more than anybody looks through.
    Crowded {
        /// Entries that were looked at.
        seen: usize,
    },
    /// `plugin.toml` lists no hashes.
    NoHashes,
    /// A file that `plugin.toml` does not list.
    Unlisted {
        /// In the plugin's folder.
        name: String,
    },
    /// A file that `plugin.toml` lists is not there.
    ListedMissing {
        /// In the plugin's folder.
        name: String,
    },
    /// A file is another one than `plugin.toml` lists.
    Altered {
        /// In the plugin's folder.
        name: String,
        /// sha256 by `plugin.toml`.
        listed: String,
        /// sha256 of the file.
        found: String,
    },
    /// There is no signature.
    Unsigned,
    /// The signature's file is none.
    SignatureDamaged {
        /// What is wrong with it.
        reason: String,
    },
    /// A trusted key did not make this signature over this `plugin.toml`.
    SignatureWrong {
        /// The key's file name without `.pub`.
        key: String,
    },
    /// Signed by a key that nobody here trusts.
    KeyUnknown {
        /// The key's number, as minisign shows it.
        key_id: String,
    },
    /// Signed by a key that was trusted up to a day in the past.
    KeyExpired {
        /// The key's file name without `.pub`.
        key: String,
        /// Its last day, `2027-12-31`.
        last_day: String,
    },
    /// A key of the host's own folders cannot be used.
    KeyUnusable {
        /// The key's file, or a folder of keys.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl Problem {
    /// Stable name for programs: the same as `code` in JSON.
    pub fn code(&self) -> &'static str {
        self.row().0
    }

    /// How serious it is under this policy.
    pub fn severity(&self, mode: Mode) -> Severity {
        let (_, warn, strict) = self.row();
        match mode {
            Mode::Warn => warn,
            Mode::Strict => strict,
        }
    }

    /// Whether it only says what nobody has proven, as it is with most plugins; the others say that something is odd.
    pub fn is_missing_proof(&self) -> bool {
        matches!(self, Self::NoHashes | Self::Unsigned | Self::SharedParent { .. })
    }

    /// The table: code, severity in mode `warn`, severity in mode `strict`. What others could exploit, and what contradicts itself, is
    /// refused always; what is merely not proven is refused where proof is asked for.
    fn row(&self) -> (&'static str, Severity, Severity) {
        use Severity::{Refused, Reported};
        match self {
            Self::ForeignOwner { .. } => ("foreign_owner", Refused, Refused),
            Self::WorldWritable { .. } => ("world_writable", Refused, Refused),
            Self::GroupWritable { .. } => ("group_writable", Reported, Refused),
            Self::SharedParent { .. } => ("shared_parent", Reported, Refused),
            Self::LeadsOut { loaded: true, .. } => ("leads_out", Refused, Refused),
            Self::LeadsOut { loaded: false, .. } => ("leads_out", Reported, Refused),
            Self::NotRegular { loaded: true, .. } => ("not_regular", Refused, Refused),
            Self::NotRegular { loaded: false, .. } => ("not_regular", Reported, Refused),
            Self::Unreadable { .. } => ("unreadable", Refused, Refused),
            Self::Crowded { .. } => ("crowded", Reported, Refused),
            Self::NoHashes => ("no_hashes", Reported, Refused),
            Self::Unlisted { .. } => ("unlisted", Reported, Refused),
            Self::ListedMissing { .. } => ("listed_missing", Refused, Refused),
            Self::Altered { .. } => ("altered", Refused, Refused),
            Self::Unsigned => ("unsigned", Reported, Refused),
            Self::SignatureDamaged { .. } => ("signature_damaged", Refused, Refused),
            Self::SignatureWrong { .. } => ("signature_wrong", Refused, Refused),
            Self::KeyUnknown { .. } => ("key_unknown", Reported, Refused),
            Self::KeyExpired { .. } => ("key_expired", Reported, Refused),
            Self::KeyUnusable { .. } => ("key_unusable", Reported, Reported),
        }
    }

    /// What was compared, and what the host wants: the first two columns of a refusal.
    fn wanted(&self) -> (&'static str, &'static str) {
        match self {
            Self::ForeignOwner { .. } => ("owner", "root, or the user who runs the host"),
            Self::WorldWritable { .. } => ("permissions", "not writable by everybody"),
            Self::GroupWritable { .. } => ("permissions", "not writable by a group"),
            Self::SharedParent { .. } => ("permissions", "no parent folder that everybody shares"),
            Self::LeadsOut { .. } => ("link", "a file in the plugin's folder"),
            Self::NotRegular { .. } => ("file", "a regular file"),
            Self::Unreadable { .. } => ("file", "a file or folder that can be read"),
            Self::Crowded { .. } => ("folder", "the plugin and nothing else"),
            Self::NoHashes => ("sha256", "a table [sha256] in plugin.toml"),
            Self::Unlisted { .. } => ("sha256", "every file listed in [sha256]"),
            Self::ListedMissing { .. } => ("sha256", "every file of [sha256]"),
            Self::Altered { .. } => ("sha256", "the file that plugin.toml lists"),
            Self::Unsigned | Self::SignatureDamaged { .. } => ("signature", "plugin.toml.minisig"),
            Self::SignatureWrong { .. } => ("signature", "one that fits plugin.toml"),
            Self::KeyUnknown { .. } | Self::KeyExpired { .. } => ("signature", "by a trusted key"),
            Self::KeyUnusable { .. } => ("trusted key", "a minisign public key"),
        }
    }

    /// What to do.
    pub fn remedy(&self) -> String {
        match self {
            Self::ForeignOwner { path, .. } => {
                format!("chown {} {}, after a look at what is in it", super::place::own_uid(), path.display())
            }
            Self::WorldWritable { path, .. } => format!("chmod o-w {}", path.display()),
            Self::GroupWritable { path, .. } => format!("chmod g-w {}", path.display()),
            Self::SharedParent { .. } => "install the plugin with `onebit-host plugin install`, or move it to a folder of your own".into(),
            Self::LeadsOut { .. } => "put the file itself into the plugin's folder".into(),
            Self::NotRegular { name, .. } => format!("remove {name}, or install the plugin again"),
            Self::Unreadable { .. } => "check the path and its permissions".into(),
            Self::Crowded { .. } => "give the plugin a folder of its own, without sources and build results".into(),
            Self::NoHashes => "its author adds them with `onebit-host plugin seal`; without them it needs trust.mode = \"warn\"".into(),
            Self::Unlisted { name } => format!("remove {name}; its author runs `onebit-host plugin seal` again"),
            Self::ListedMissing { .. } | Self::Altered { .. } => "install the plugin again from a source you trust".into(),
            Self::Unsigned => "its author signs plugin.toml with minisign; unsigned it needs trust.mode = \"warn\"".into(),
            Self::SignatureDamaged { .. } | Self::SignatureWrong { .. } => {
                "install the plugin again from a source you trust; if you changed plugin.toml yourself, remove the signature or sign again"
                    .into()
            }
            Self::KeyUnknown { key_id } => {
                format!("if you trust its author, put the public key {key_id} as NAME.pub into {}", super::keys::SYSTEM_KEYS)
            }
            Self::KeyExpired { key, .. } => format!("install a build signed by a current key, or renew {key}.pub"),
            Self::KeyUnusable { path, .. } => format!("correct {}, or remove it", path.display()),
        }
    }

    /// As a row of a refusal.
    pub fn refusal(&self) -> RefusalRow {
        let (field, host) = self.wanted();
        RefusalRow { field: field.into(), host: host.into(), plugin: self.to_string(), remedy: self.remedy() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignOwner { path, uid } => write!(f, "{} belongs to user {uid}, who could change it", path.display()),
            Self::WorldWritable { path, mode } => write!(f, "{} has mode {mode:04o}: everybody may change it", path.display()),
            Self::GroupWritable { path, mode, gid } => {
                write!(f, "{} has mode {mode:04o}: everybody in group {gid} may change it", path.display())
            }
            Self::SharedParent { path } => {
                write!(
                    f,
                    "it lies below {}, where everybody may make files; what is cleaned away there can be made anew by others",
                    path.display()
                )
            }
            Self::LeadsOut { name, to, .. } => write!(f, "{name} leads to {}", to.display()),
            Self::NotRegular { name, .. } => write!(f, "{name} is none"),
            Self::Unreadable { path, reason } => write!(f, "{}: {reason}", path.display()),
            Self::Crowded { seen } => write!(f, "the folder has more than {seen} entries; the others were not looked at"),
            Self::NoHashes => f.write_str("plugin.toml lists no hashes, so a changed file cannot be noticed"),
            Self::Unlisted { name } => write!(f, "{name} is not listed in plugin.toml"),
            Self::ListedMissing { name } => write!(f, "{name} is listed in plugin.toml and is not there"),
            Self::Altered { name, listed, found } => {
                write!(f, "{name} has sha256 {}…, plugin.toml lists {}…", short(found), short(listed))
            }
            Self::Unsigned => f.write_str("not signed"),
            Self::SignatureDamaged { reason } => write!(f, "plugin.toml.minisig is no minisign signature: {reason}"),
            Self::SignatureWrong { key } => {
                write!(f, "the signature of key {key} does not fit this plugin.toml: one of the two was changed")
            }
            Self::KeyUnknown { key_id } => write!(f, "signed by key {key_id}, which is not trusted here"),
            Self::KeyExpired { key, last_day } => write!(f, "signed by key {key}, which was trusted until {last_day}"),
            Self::KeyUnusable { path, reason } => write!(f, "the key {} is not used: {reason}", path.display()),
        }
    }
}

/// Enough of a hash to tell two apart.
fn short(hash: &str) -> &str {
    hash.get(..16).unwrap_or(hash)
}
