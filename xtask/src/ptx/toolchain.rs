//! A compiler whose library source is at hand, since `core` has to be built
//! for the target.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;

/// Names a compiler to be used instead of those that are looked for.
const VARIABLE: &str = "DHEAP_PTX_RUSTC";

pub(super) struct Toolchain {
    pub(super) rustc: PathBuf,
    pub(super) cargo: PathBuf,
    /// What the compiler says of itself.
    pub(super) version: String,
}

/// The first of: the compiler that `DHEAP_PTX_RUSTC` names, a distribution's
/// `/usr/bin/rustc`, rustup's default and nightly toolchains.
pub(super) fn find() -> Result<Toolchain, Error> {
    if let Some(named) = env::var_os(VARIABLE) {
        let rustc = PathBuf::from(named);
        return check(&rustc).ok_or_else(|| {
            Error::Other(format!(
                "{VARIABLE} names {}, which does not run or has no library source beside it",
                rustc.display()
            ))
        });
    }
    let distribution = Some(PathBuf::from("/usr/bin/rustc"));
    let rustup = ["stable", "nightly"].map(rustup_rustc);
    let candidates = [distribution].into_iter().chain(rustup);
    candidates.flatten().find_map(|rustc| check(&rustc)).ok_or_else(|| {
        Error::Other(format!(
            "no compiler with library source found; install one (`rustup toolchain install nightly \
             --component rust-src`, or on Debian `apt-get install --no-install-recommends rustc-web \
             rust-web-src cargo-web`), or name it in {VARIABLE}"
        ))
    })
}

fn rustup_rustc(toolchain: &str) -> Option<PathBuf> {
    let path = output(Command::new("rustup").args(["which", "--toolchain", toolchain, "rustc"]))?;
    Some(PathBuf::from(path))
}

/// The compiler, if it runs and has its library's source and a cargo.
fn check(rustc: &Path) -> Option<Toolchain> {
    let sysroot = output(Command::new(rustc).args(["--print", "sysroot"]))?;
    let source = Path::new(&sysroot).join("lib/rustlib/src/rust/library/core/Cargo.toml");
    let cargo = rustc.with_file_name("cargo");
    if !source.is_file() || !cargo.is_file() {
        return None;
    }
    let version = output(Command::new(rustc).arg("--version"))?;
    Some(Toolchain {
        rustc: rustc.to_owned(),
        cargo,
        version,
    })
}

/// A command's output, if it succeeds.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    output.status.success().then_some(())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
