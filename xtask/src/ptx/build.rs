//! From the kernels' source to PTX, with rustc's own code generator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::toolchain::Toolchain;
use crate::Error;

const TARGET: &str = "nvptx64-nvidia-cuda";

/// All that decides on the result beside compiler and sources.
pub(super) const SETTINGS: &str = "target-cpu=sm_80 location-detail=none features=entry lto=fat \
     codegen-units=1 opt-level=3 panic=abort overflow-checks=off maxnreg=40";

/// Registers of a thread, at most, in kernels that use the heap: as many as let
/// half of the warps that a multiprocessor can hold be there at once. What is
/// rare is in functions of its own, which pay with local memory.
const REGISTERS: u32 = 40;

/// Kernels with that limit begin with one of these.
const LIMITED: [&str; 7] = [
    "dh_alloc",
    "dh_free",
    "dh_realloc",
    "dh_churn",
    "dh_wander",
    "dh_swap",
    "dh_reclaim",
];

/// A build's result.
pub(super) struct Built {
    pub(super) ptx: String,
    /// The source files that went into it, from the repository's root.
    pub(super) sources: Vec<PathBuf>,
}

/// A crate of kernels.
pub(super) struct Unit {
    /// Its folder, from the repository's root.
    pub(super) folder: &'static str,
    /// Its name as the compiler writes it.
    name: &'static str,
    features: &'static str,
    /// Where its PTX is, from the repository's root.
    pub(super) file: &'static str,
}

/// The heap's own kernels, and those of an example.
pub(super) const UNITS: [Unit; 2] = [
    Unit {
        folder: "heap-kernels",
        name: "heap_kernels",
        features: "entry",
        file: "heap-kernels/ptx/heap.sm_80.ptx",
    },
    Unit {
        folder: "examples/own_kernel",
        name: "own_kernel",
        features: "",
        file: "examples/own_kernel/own_kernel.sm_80.ptx",
    },
];

/// The crate that every unit is made of, or uses.
const HEAP: &str = "heap_kernels";

/// Builds a crate as a static library with all of its code in one unit, and
/// takes the assembly: that is complete PTX.
pub(super) fn kernels(root: &Path, toolchain: &Toolchain, unit: &Unit) -> Result<Built, Error> {
    let target_dir = root.join("target/ptx");
    let release = target_dir.join(TARGET).join("release");
    forget(&release)?;
    let mut command = Command::new(&toolchain.cargo);
    command
        .current_dir(root.join(unit.folder))
        .args(["rustc", "--quiet", "--release", "--locked", "--lib"])
        .args(["-Zbuild-std=core", "--target", TARGET])
        .args(["--features", unit.features])
        .args(["--crate-type", "staticlib"])
        .arg("--target-dir")
        .arg(&target_dir)
        .args(["--", "--emit=asm"])
        .env("RUSTC", &toolchain.rustc)
        // A released compiler builds core, and takes unstable features, only so.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Ctarget-cpu=sm_80 -Zlocation-detail=none")
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "false")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WRAPPER");
    let status = command.status().map_err(|source| Error::Run {
        program: toolchain.cargo.display().to_string(),
        source,
    })?;
    if !status.success() {
        return Err(Error::Other(format!(
            "{} does not build, see above",
            unit.folder
        )));
    }
    let deps = release.join("deps");
    let ptx_file = only(&deps, unit.name, "s")?;
    let ptx = fs::read_to_string(&ptx_file).map_err(Error::file(&ptx_file))?;
    let mut sources = Vec::new();
    for name in [unit.name, HEAP] {
        let list_file = only(&deps, name, "d")?;
        let list = fs::read_to_string(&list_file).map_err(Error::file(&list_file))?;
        sources.extend(listed(root, unit.folder, &list));
    }
    sources.sort();
    sources.dedup();
    Ok(Built {
        ptx: limited(&ptx),
        sources,
    })
}

/// Removes an earlier build of the kernels, not of `core`, so that what is
/// found afterwards is this build's.
fn forget(release: &Path) -> Result<(), Error> {
    for folder in [release.join("deps"), release.join(".fingerprint")] {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().replace('-', "_");
            if !UNITS.iter().any(|unit| name.contains(unit.name)) {
                continue;
            }
            let path = entry.path();
            let removed = if path.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            removed.map_err(Error::file(&path))?;
        }
    }
    Ok(())
}

/// The file of a crate with this ending.
fn only(folder: &Path, name: &str, ending: &str) -> Result<PathBuf, Error> {
    let entries = fs::read_dir(folder).map_err(Error::file(folder))?;
    let mut found = entries.flatten().map(|entry| entry.path()).filter(|path| {
        let ours = |file: &std::ffi::OsStr| file.to_string_lossy().starts_with(name);
        path.extension().is_some_and(|e| e == ending) && path.file_name().is_some_and(ours)
    });
    match (found.next(), found.next()) {
        (Some(path), None) => Ok(path),
        _ => Err(Error::Other(format!(
            "expected one {name}*.{ending} in {}",
            folder.display()
        ))),
    }
}

/// The repository's files that a compiler's dependency list names, from its
/// root. Names in the list are from the folder in which cargo's workspace is.
fn listed(root: &Path, folder: &str, list: &str) -> Vec<PathBuf> {
    let names = list.lines().filter_map(|line| line.strip_suffix(':'));
    let paths = names.map(|name| PathBuf::from(name.replace("\\ ", " ")));
    let inside = paths.filter_map(|path| {
        if path.is_absolute() {
            return path.strip_prefix(root).map(Path::to_owned).ok();
        }
        let beside = Path::new(folder).join(&path);
        Some(if root.join(&beside).is_file() {
            beside
        } else {
            path
        })
    });
    inside.collect()
}

/// The PTX with a limit to the registers of some kernels, which rustc has no
/// attribute for.
fn limited(ptx: &str) -> String {
    let mut lines = ptx.lines();
    let mut text = String::with_capacity(ptx.len() + 1024);
    while let Some(line) = lines.next() {
        text.push_str(line);
        text.push('\n');
        let kernel = line.strip_prefix(".visible .entry ");
        if !kernel.is_some_and(|name| LIMITED.iter().any(|limited| name.starts_with(limited))) {
            continue;
        }
        // The directive stands between the parameters and the body.
        for line in lines.by_ref() {
            text.push_str(line);
            text.push('\n');
            if line == ")" {
                text.push_str(&format!(".maxnreg {REGISTERS}\n"));
                break;
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kernels_that_use_the_heap_are_limited() {
        let ptx = "a\n.visible .entry dh_alloc(\n\t.param .u64 p\n)\n{\n\tret;\n}\n\
                   .visible .entry dh_write(\n)\n{\n}\n";
        let expected = ptx.replacen(")\n{", ")\n.maxnreg 40\n{", 1);
        assert_eq!(limited(ptx), expected);
    }

    #[test]
    fn a_dependency_list_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("own/src")).unwrap();
        fs::write(root.join("own/src/lib.rs"), "").unwrap();
        let list = format!(
            "/r/target/x.d: k/src/a.rs\n\nk/src/a.rs:\n{0}/k/src/b.rs:\n/usr/core.rs:\n\
             src/lib.rs:\n\n# env-dep:X=y\n",
            root.display()
        );
        let found = listed(root, "own", &list);
        let expected = ["k/src/a.rs", "k/src/b.rs", "own/src/lib.rs"];
        assert_eq!(found, expected.map(PathBuf::from));
    }
}
