//! The comment at the head of a PTX file: what it was made from.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::build::SETTINGS;
use crate::Error;

/// What a PTX file was made from.
pub(super) struct Stamp {
    compiler: String,
    body: String,
    /// Paths from the repository's root, with hashes.
    sources: Vec<(String, String)>,
}

impl Stamp {
    pub(super) fn new(
        root: &Path,
        compiler: &str,
        sources: &[PathBuf],
        ptx: &str,
    ) -> Result<Self, Error> {
        let hashed = sources.iter().map(|source| {
            let name = source.to_string_lossy().replace('\\', "/");
            let hash = hash_file(&root.join(source))?;
            Ok((name, hash))
        });
        Ok(Self {
            compiler: compiler.to_owned(),
            body: hash(ptx.as_bytes()),
            sources: hashed.collect::<Result<_, Error>>()?,
        })
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "// Kernels of device-heap, for NVIDIA GPUs from sm_80 on."
        )?;
        writeln!(f, "// Made by `cargo xtask ptx`; do not edit.")?;
        writeln!(f, "// compiler: {}", self.compiler)?;
        writeln!(f, "// settings: {SETTINGS}")?;
        writeln!(f, "// body: {}", self.body)?;
        for (name, hash) in &self.sources {
            writeln!(f, "// source: {hash} {name}")?;
        }
        writeln!(f, "// end of stamp")
    }
}

/// Why the PTX `text` is not what its sources give; nothing where it is.
pub(super) fn stale(root: &Path, text: &str) -> Result<Vec<String>, Error> {
    let mut reasons = Vec::new();
    let Some((head, body)) = text.split_once("// end of stamp\n") else {
        return Ok(vec!["it has no stamp".to_owned()]);
    };
    let field = |name: &str| {
        let prefix = format!("// {name}: ");
        head.lines().find_map(|line| line.strip_prefix(&prefix))
    };
    if field("settings") != Some(SETTINGS) {
        reasons.push("it was built with other settings".to_owned());
    }
    if field("body") != Some(&hash(body.as_bytes())) {
        reasons.push("it was edited".to_owned());
    }
    let sources = head
        .lines()
        .filter_map(|line| line.strip_prefix("// source: "));
    let mut count = 0;
    for line in sources {
        count += 1;
        let (expected, name) = line.split_once(' ').unwrap_or((line, ""));
        let file = root.join(name);
        if !file.is_file() {
            reasons.push(format!("{name} is gone"));
        } else if hash_file(&file)? != expected {
            reasons.push(format!("{name} has changed"));
        }
    }
    if count == 0 {
        reasons.push("it names no sources".to_owned());
    }
    Ok(reasons)
}

fn hash_file(file: &Path) -> Result<String, Error> {
    let bytes = fs::read(file).map_err(Error::file(file))?;
    Ok(hash(&bytes))
}

/// The first half of SHA-256, which is enough for a change that nobody makes
/// on purpose.
fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(folder: &Path) -> String {
        fs::write(folder.join("a.rs"), "one").unwrap();
        fs::write(folder.join("b.rs"), "two").unwrap();
        let sources = [PathBuf::from("a.rs"), PathBuf::from("b.rs")];
        let stamp = Stamp::new(folder, "rustc 1", &sources, "body\n").unwrap();
        format!("{stamp}body\n")
    }

    #[test]
    fn a_fresh_file_is_not_stale() {
        let folder = tempfile::tempdir().unwrap();
        let text = stamped(folder.path());
        assert_eq!(stale(folder.path(), &text).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_staleness_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let text = stamped(root);
        let reasons = |text: &str| stale(root, text).unwrap().join(", ");
        assert_eq!(reasons(&format!("{text}more")), "it was edited");
        assert_eq!(reasons("body\n"), "it has no stamp");
        let other = text.replace(SETTINGS, "none");
        assert_eq!(reasons(&other), "it was built with other settings");
        fs::write(root.join("a.rs"), "changed").unwrap();
        assert_eq!(reasons(&text), "a.rs has changed");
        fs::remove_file(root.join("b.rs")).unwrap();
        assert_eq!(reasons(&text), "a.rs has changed, b.rs is gone");
    }
}
