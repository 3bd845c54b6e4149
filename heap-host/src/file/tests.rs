//! Names that stand for something else than a regular file.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};

use super::read::read_up_to;
use super::*;

fn pipe(path: &Path) {
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o7777
}

fn write(path: &Path) -> Result<(), FileError> {
    replace(path, |file| file.write_all(b"new"))
}

/// Refused by the check and by the writer, in the same words.
#[track_caller]
fn refused(path: &Path) -> String {
    let checked = check_target(path).unwrap_err().to_string();
    assert_eq!(write(path).unwrap_err().to_string(), checked);
    checked
}

#[test]
fn what_is_no_regular_file_stays_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name| folder.path().join(name);
    pipe(&at("pipe"));
    fs::create_dir(at("folder")).unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    for (name, kind) in [
        ("pipe", "a pipe"),
        ("folder", "a directory"),
        ("socket", "a socket"),
    ] {
        let before = at(name).symlink_metadata().unwrap().file_type();
        let told = refused(&at(name));
        assert!(
            told.contains(&format!("this is {kind}, which is left")),
            "{told}"
        );
        // A link to it is no way around.
        symlink(name, at("link")).unwrap();
        assert_eq!(refused(&at("link")), told);
        assert!(at("link").is_symlink());
        fs::remove_file(at("link")).unwrap();
        assert_eq!(at(name).symlink_metadata().unwrap().file_type(), before);
    }
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    names.retain(|entry| entry.is_ok());
    assert_eq!(names.len(), 3, "nothing else was made: {names:?}");
}

#[test]
fn links_stay_and_what_they_lead_to_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name| folder.path().join(name);
    fs::create_dir(at("sub")).unwrap();
    fs::write(at("sub/file"), "old").unwrap();
    symlink("sub/file", at("relative")).unwrap();
    symlink(at("relative"), at("absolute")).unwrap();
    symlink("sub/not_yet", at("dangling")).unwrap();
    symlink("dangling", at("twice")).unwrap();
    for (link, target) in [("absolute", "sub/file"), ("twice", "sub/not_yet")] {
        check_target(&at(link)).unwrap();
        write(&at(link)).unwrap();
        assert!(at(link).is_symlink(), "{link}");
        assert!(at(target).symlink_metadata().unwrap().is_file());
        assert_eq!(fs::read_to_string(at(target)).unwrap(), "new");
    }
    assert_eq!(fs::read_dir(at("sub")).unwrap().count(), 2);

    symlink("circle", at("circle")).unwrap();
    refused(&at("circle"));
    symlink("nowhere/file", at("lost")).unwrap();
    assert!(refused(&at("lost")).contains("no existing directory"));
}

#[test]
fn permissions_are_kept_and_respected() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "old").unwrap();
    for bits in [0o600, 0o666, 0o751] {
        fs::set_permissions(&file, Permissions::from_mode(bits)).unwrap();
        write(&file).unwrap();
        assert_eq!(mode(&file), bits, "{bits:o}");
    }
    fs::write(&file, "old").unwrap();
    for bits in [0o444, 0o466, 0o000] {
        fs::set_permissions(&file, Permissions::from_mode(bits)).unwrap();
        assert!(refused(&file).contains("read-only"), "{bits:o}");
        assert_eq!(mode(&file), bits, "{bits:o}");
    }
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
}

#[test]
fn a_new_file_needs_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name| folder.path().join(name);
    fs::write(at("file"), "").unwrap();
    for name in ["none/file", "file/file"] {
        assert!(
            refused(&at(name)).contains("no existing directory"),
            "{name}"
        );
    }
    check_target(&at("new")).unwrap();
    assert!(!at("new").exists(), "looking makes nothing");
    write(&at("new")).unwrap();
    assert_eq!(fs::read_to_string(at("new")).unwrap(), "new");
}

#[test]
fn a_failed_write_leaves_the_old_file_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "old").unwrap();
    let failed = replace(&file, |file| {
        file.write_all(b"half")?;
        Err(std::io::Error::other("that is all"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "that is all");
    assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn files_and_pipes_are_read_up_to_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (file, fifo) = (folder.path().join("file"), folder.path().join("fifo"));
    fs::write(&file, [7; 100]).unwrap();
    pipe(&fifo);
    let read_fifo = |limit| {
        let path = fifo.clone();
        // Not waited for: it would wait for a reader that does not come.
        std::thread::spawn(move || fs::write(path, [7; 100]));
        read_up_to(&fifo, limit)
    };
    for limit in [100, 101, u64::MAX] {
        assert_eq!(read_up_to(&file, limit).unwrap(), [7; 100]);
        assert_eq!(read_fifo(limit).unwrap(), [7; 100]);
    }
    for limit in [0, 99] {
        for result in [read_up_to(&file, limit), read_fifo(limit)] {
            let told = result.unwrap_err().to_string();
            assert!(
                told.starts_with(&format!("this holds more than {limit} bytes")),
                "{told}"
            );
        }
    }
}

#[test]
fn what_cannot_be_read_is_named_by_its_kind() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _socket = UnixListener::bind(&socket).unwrap();
    for (path, kind) in [(folder.path(), "a directory"), (&socket, "a socket")] {
        let told = read(path).unwrap_err().to_string();
        assert_eq!(
            told,
            format!("this is {kind}; name a regular file or a pipe to read")
        );
    }
    let missing = read(&folder.path().join("missing")).unwrap_err();
    assert!(matches!(missing, FileError::Io(_)), "{missing}");
}
