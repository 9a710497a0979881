//! `plugin install`: from a folder, an archive or an address to a plugin in its place, checked before anybody sees it.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches};
use onebit_install::{Done, Installed, Store};
use onebit_loader::trust::Problem;

use super::Sub;
use crate::commands::{Invocation, trust};
use crate::exit::{Exit, Failure};
use crate::output::{self, note};
use crate::pull::{Expected, Patience, Pull, Reader, Source, sha256_text};
use crate::settings::table;

/// Bytes of an archive that is downloaded.
const ARCHIVE_MAX: u64 = 4 << 30;
/// Where root installs: what distributions' packages bring lies in `/usr/lib` and is left to them.
const SYSTEM: &str = "/usr/local/lib/onebit/plugins";

pub(super) static SUB: Sub = Sub {
    name: "install",
    about: "Install a plugin from a folder, an archive (.tar.gz, .tar.zst, .zip) or an https address of one",
    arguments: |command| {
        let source = Arg::new("source").value_name("FILE|DIR|URL").required(true).help("Where the plugin is");
        let sha256 = Arg::new("sha256").long("sha256").value_name("HASH").help("What the archive must be");
        command.arg(source).arg(sha256)
    },
    run: install,
};

fn install(invocation: &Invocation<'_>, own: &ArgMatches) -> Result<(), Failure> {
    let said = own.get_one::<String>("source").cloned().unwrap_or_default();
    let sha256 = own.get_one::<String>("sha256").map(|text| sha256_text(text)).transpose();
    let sha256 = sha256.map_err(|problem| Failure::new(Exit::Usage, format!("--sha256: {problem}")))?;
    let store = store(invocation)?;
    if !(said.starts_with("https://") || said.starts_with("http://")) {
        let path = PathBuf::from(&said);
        if let Some(wanted) = sha256 {
            verify(&path, &wanted)?;
        }
        return report(&store.install(&path, &shown(&path))?, &store);
    }
    let source = Source::parse(&said).map_err(|problem| Failure::new(Exit::Usage, problem))?;
    // Where plugins go there must be room for them, so there is for their archive; a plugins folder is nothing that a download may be seen in.
    let folder = tempfile::tempdir().map_err(|error| Failure::io("make a folder for the download", &error))?;
    let settings = &invocation.settings;
    let pull = Pull {
        models_dir: folder.path().to_owned(),
        rename: Some("plugin".into()),
        expected: Expected { sha256, most: Some(ARCHIVE_MAX), ..Expected::default() },
        force: false,
        hub_endpoint: settings.get(&table::HUB_ENDPOINT)?,
        hub_token: None,
        patience: Patience { attempts: settings.get(&table::PULL_ATTEMPTS)?, stall: settings.get(&table::PULL_STALL)?.0 },
        python: settings.get(&table::PULL_PYTHON)?,
        reader: Reader::Person,
    };
    let pulled = pull.get(&source)?;
    report(&store.install(&pulled.path, &address(&source, &said))?, &store)
}

/// The folder of plugins that this invocation changes.
pub(super) fn store(invocation: &Invocation<'_>) -> Result<Store, Failure> {
    let given = invocation.settings.get(&table::PLUGIN_DIR)?.into_iter().next();
    let usual = if rustix::process::geteuid().is_root() {
        Some(PathBuf::from(SYSTEM))
    } else {
        invocation.places.data.as_ref().map(|data| data.join("plugins"))
    };
    let dir = given.or(usual).ok_or_else(|| {
        Failure::new(Exit::Usage, "there is no folder for plugins: this user has no home").next("Name one with --plugin-dir DIR.")
    })?;
    let dir = std::path::absolute(&dir).map_err(|error| Failure::io(format!("find {}", dir.display()), &error))?;
    Ok(Store::new(dir, trust(&invocation.settings)?))
}

fn verify(path: &Path, wanted: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::io(format!("read {}", path.display()), &error);
    let found = std::fs::File::open(path).and_then(|file| onebit_loader::trust::sha256(&file)).map_err(failed)?;
    if found == wanted {
        return Ok(());
    }
    Err(Failure::new(Exit::Corrupt, format!("{} is not the right file: its sha256 is {found}, it must be {wanted}", path.display()))
        .next("Nothing was installed."))
}

fn shown(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Without what may be secret in it.
fn address(source: &Source, said: &str) -> String {
    match source {
        Source::Url(url) => crate::pull::shown(url),
        _ => said.to_owned(),
    }
}

fn report(done: &Done, store: &Store) -> Result<(), Failure> {
    let (installed, word) = match done {
        Done::Installed(installed) => (installed, "is installed"),
        Done::AlreadyThere(installed) => (installed, "was there already, file by file; nothing was changed"),
    };
    let Installed { inspection, record, replaced } = &**installed;
    let toml = &inspection.file.toml;
    output::line(format!("{} {} {word}", toml.id, toml.version))?;
    let mut rows =
        vec![vec!["folder".to_owned(), inspection.file.dir.display().to_string()], vec!["from".to_owned(), record.source.clone()]];
    if let Some(sha256) = &record.archive_sha256 {
        rows.push(vec!["archive sha256".to_owned(), sha256.clone()]);
    }
    rows.push(vec!["library sha256".to_owned(), record.library_sha256.clone()]);
    rows.push(vec![
        "signed by".to_owned(),
        inspection.trust.signer.as_ref().map_or("nobody".to_owned(), |by| format!("{} ({})", by.key, by.comment)),
    ]);
    if let Some(version) = replaced {
        rows.push(vec!["previous".to_owned(), format!("{version}, kept")]);
    }
    for row in rows {
        output::line(format!("  {:<15} {}", row[0], row[1]))?;
    }
    for problem in inspection.trust.problems.iter().filter(|problem| !matches!(problem, Problem::Unsigned)) {
        note(format!("trust: {problem}"));
    }
    if replaced.is_some() {
        note(format!("Loaded models keep the version they have. Back: onebit-host plugin rollback {}", toml.id));
    }
    let given = if store.dir().starts_with(SYSTEM) { String::new() } else { format!(" --plugin-dir {}", store.dir().display()) };
    note(format!("What it can compute on here: onebit-host plugin list --why{given}"));
    Ok(())
}
