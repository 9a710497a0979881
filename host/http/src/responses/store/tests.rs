use super::*;

/// A file of its own, removed with its folder.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn keep(&self) -> KeepResponses {
        KeepResponses { file: self.0.path().join("deep/er/responses.db"), retention: None, max_bytes: 1 << 20 }
    }

    fn open(&self) -> Store {
        Store::open(&self.keep()).expect("a store")
    }
}

fn ada() -> Arc<str> {
    Arc::from("ada")
}

fn response(id: &str, created: u64, previous: Option<&str>) -> Kept {
    Kept {
        id: id.to_owned(),
        owner: ada(),
        created,
        previous: previous.map(str::to_owned),
        running: false,
        body: format!("{{\"id\":\"{id}\"}}"),
        input: "[]".to_owned(),
    }
}

fn ids(history: History) -> Vec<String> {
    match history {
        History::Whole(turns) => turns.into_iter().map(|turn| turn.id).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_kept_is_found_by_its_owner_alone_also_after_a_restart() {
    let place = Place::new();
    let kept = response("resp_1", 5, None);
    place.open().keep(kept.clone()).await.expect("kept");
    let store = place.open();
    assert_eq!(store.find(&ada(), "resp_1").await.expect("found"), Some(kept));
    let other: Arc<str> = Arc::from("bob");
    assert_eq!(store.find(&other, "resp_1").await.expect("looked"), None);
    assert!(!store.remove(&other, "resp_1").await.expect("looked"));
    assert!(matches!(store.history(&other, "resp_1").await.expect("looked"), History::Missing(_)));
    assert!(store.remove(&ada(), "resp_1").await.expect("removed"));
    assert_eq!(store.find(&ada(), "resp_1").await.expect("looked"), None);
}

#[tokio::test]
async fn only_the_user_may_read_the_file_and_its_folder() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.open().keep(response("resp_1", 5, None)).await.expect("kept");
    let file = place.keep().file;
    for (path, mode) in [(file.as_path(), 0o600), (file.parent().expect("a folder"), 0o700)] {
        assert_eq!(std::fs::metadata(path).expect("there").permissions().mode() & 0o777, mode, "{}", path.display());
    }
}

#[tokio::test]
async fn a_history_is_whole_or_names_what_is_missing() {
    let place = Place::new();
    let store = place.open();
    for kept in [response("a", 1, None), response("b", 2, Some("a")), response("c", 3, Some("b"))] {
        store.keep(kept).await.expect("kept");
    }
    assert_eq!(ids(store.history(&ada(), "c").await.expect("read")), ["a", "b", "c"]);
    store.remove(&ada(), "a").await.expect("removed");
    assert!(matches!(store.history(&ada(), "c").await.expect("read"), History::Missing(id) if id == "a"));
}

#[tokio::test]
async fn the_oldest_goes_when_there_is_too_much() {
    let place = Place::new();
    let store = Store::open(&KeepResponses { max_bytes: 120, ..place.keep() }).expect("a store");
    for (id, created) in [("new", 9), ("old", 1), ("newer", 10)] {
        store.keep(Kept { input: "x".repeat(40), ..response(id, created, None) }).await.expect("kept");
    }
    assert_eq!(store.find(&ada(), "old").await.expect("looked"), None);
    for id in ["new", "newer"] {
        assert!(store.find(&ada(), id).await.expect("looked").is_some(), "{id}");
    }
    // Written anew it counts once.
    store.keep(Kept { input: "x".repeat(40), ..response("newer", 10, None) }).await.expect("kept");
    assert!(store.find(&ada(), "new").await.expect("looked").is_some());
}

#[tokio::test]
async fn what_is_too_old_is_deleted_and_what_nobody_makes_has_failed() {
    let place = Place::new();
    let store = place.open();
    store.keep(response("old", unix_now() - 100, None)).await.expect("kept");
    store.keep(response("young", unix_now(), None)).await.expect("kept");
    store.keep(Kept { running: true, ..response("mine", unix_now(), None) }).await.expect("kept");
    store.keep(Kept { running: true, ..response("orphan", unix_now(), None) }).await.expect("kept");
    let gone = |connection: &mut Connection| connection.execute("UPDATE responses SET runner = '1 0' WHERE id = 'orphan'", []);
    store.with(gone).await.expect("changed");
    store.with(|connection| sweep(connection, Some(Duration::from_secs(50)))).await.expect("swept");
    assert_eq!(store.find(&ada(), "old").await.expect("looked"), None);
    assert!(store.find(&ada(), "young").await.expect("looked").is_some());
    assert!(store.find(&ada(), "mine").await.expect("looked").is_some_and(|kept| kept.running));
    let orphan = store.find(&ada(), "orphan").await.expect("looked").expect("kept");
    assert!(!orphan.running && orphan.body.contains("\"failed\""), "{}", orphan.body);
    let books = "SELECT (SELECT bytes FROM held) = (SELECT sum(bytes) FROM responses) AND (SELECT sum(length(CAST(body AS BLOB)) + length(CAST(input AS BLOB))) FROM responses) = (SELECT bytes FROM held)";
    assert!(store.with(move |connection| connection.query_row(books, [], |row| row.get::<_, bool>(0))).await.expect("counted"));
}

#[tokio::test]
async fn a_file_that_is_none_of_ours_is_refused_and_left_alone() {
    let place = Place::new();
    let keep = place.keep();
    std::fs::create_dir_all(keep.file.parent().expect("a folder")).expect("made");
    std::fs::write(&keep.file, "not a database, but somebody's text, which is long enough to be looked at").expect("written");
    let error = Store::open(&keep).expect_err("no database").to_string();
    assert!(error.contains("not a database") && error.contains("responses_db"), "{error}");
    assert!(std::fs::read_to_string(&keep.file).expect("there").starts_with("not a database"));

    let newer = Place::new();
    drop(newer.open());
    let connection = Connection::open(newer.keep().file).expect("a database");
    connection.pragma_update(None, "user_version", 99).expect("written");
    assert!(Store::open(&newer.keep()).expect_err("newer").to_string().contains("newer version"));

    let folder = Place::new();
    std::fs::create_dir_all(folder.keep().file).expect("made");
    assert!(Store::open(&folder.keep()).is_err());
}

#[tokio::test]
async fn whoever_asks_for_a_response_learns_that_its_server_is_gone() {
    let place = Place::new();
    let store = place.open();
    for id in ["made", "orphan"] {
        store.keep(Kept { running: true, ..response(id, unix_now(), None) }).await.expect("kept");
    }
    // Another server's, which ends after this one was opened.
    let gone = |connection: &mut Connection| connection.execute("UPDATE responses SET runner = '1 0' WHERE id = 'orphan'", []);
    store.with(gone).await.expect("written");
    let orphan = store.find(&ada(), "orphan").await.expect("looked").expect("kept");
    assert!(!orphan.running && orphan.body.contains("\"failed\""), "{}", orphan.body);
    assert!(store.find(&ada(), "made").await.expect("looked").expect("kept").running);
}
