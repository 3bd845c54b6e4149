//! Names that stand for something else than a regular file.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use device_heap::plan::csv;
use rustix::fs::{CWD, Mode, mkfifoat};

use super::common::{dheap_at, timeless};

const TABLE: &str = "id,lower,upper,size\na,0,2,100\nb,1,3,50\n";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.csv"), TABLE).unwrap();
    folder
}

/// A pipe, and somebody who writes `text` into it once somebody reads.
fn pipe(path: &Path, text: &'static str) {
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
    let path = path.to_owned();
    std::thread::spawn(move || fs::write(path, text));
}

#[test]
fn what_is_no_regular_file_is_no_place_for_a_plan() {
    let folder = folder();
    let at = |name| folder.path().join(name);
    mkfifoat(CWD, at("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    symlink("pipe", at("link")).unwrap();
    fs::write(at("guarded.csv"), "old").unwrap();
    fs::set_permissions(at("guarded.csv"), Permissions::from_mode(0o444)).unwrap();
    for (out, word) in [
        ("pipe", "is a pipe, which is left as it is"),
        ("link", "is a pipe, which is left as it is"),
        ("guarded.csv", "is read-only"),
    ] {
        // Before anything else: there is not even an input.
        for file in ["in.csv", "none.csv"] {
            dheap_at(folder.path(), &["plan", file, "--out", out]).refused(&["--out", out, word]);
        }
    }
    use std::os::unix::fs::FileTypeExt;
    assert!(at("pipe").symlink_metadata().unwrap().file_type().is_fifo());
    assert!(at("link").is_symlink());
    assert_eq!(fs::read_to_string(at("guarded.csv")).unwrap(), "old");
}

#[test]
fn a_plan_goes_where_a_link_leads_and_keeps_what_was_allowed() {
    let folder = folder();
    let at = |name| folder.path().join(name);
    fs::create_dir(at("plans")).unwrap();
    fs::write(at("plans/old.csv"), "old").unwrap();
    fs::set_permissions(at("plans/old.csv"), Permissions::from_mode(0o640)).unwrap();
    symlink("plans/old.csv", at("old.csv")).unwrap();
    symlink("plans/new.csv", at("new.csv")).unwrap();
    for name in ["old.csv", "new.csv"] {
        dheap_at(folder.path(), &["plan", "in.csv", "--out", name]).done();
        assert!(at(name).is_symlink());
        let (instance, _) = csv::read_plan(&at("plans").join(name)).unwrap();
        assert_eq!(instance.len(), 2);
    }
    let mode = at("plans/old.csv").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    // A link to the input is the input.
    symlink("in.csv", at("again.csv")).unwrap();
    dheap_at(folder.path(), &["plan", "in.csv", "--out", "again.csv"])
        .refused(&["again.csv", "is the input itself"]);
}

#[test]
fn pipes_are_read_like_files() {
    let folder = folder();
    let at = |name| folder.path().join(name);
    pipe(&at("table"), TABLE);
    let mut piped = timeless(
        dheap_at(folder.path(), &["plan", "table", "--json"])
            .done()
            .json(),
    );
    let mut file = timeless(
        dheap_at(folder.path(), &["plan", "in.csv", "--json"])
            .done()
            .json(),
    );
    for report in [&mut piped, &mut file] {
        report.as_object_mut().unwrap().remove("file");
    }
    assert_eq!(piped, file);

    let tiles = include_str!("../../sequences/tiles.json");
    pipe(&at("sequence"), tiles);
    let run = dheap_at(folder.path(), &["run", "sequence", "--json"]);
    assert_eq!(run.done().json()["sequence"], "tiles");
}

#[test]
fn a_socket_is_not_read() {
    let folder = folder();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("s")).unwrap();
    for command in ["run", "plan"] {
        dheap_at(folder.path(), &[command, "s"]).refused(&["s: this is a socket", "regular file"]);
    }
}
