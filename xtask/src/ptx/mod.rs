//! The kernels as PTX.

mod assemble;
mod build;
mod stamp;
mod toolchain;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::{Error, root};
use build::{UNITS, Unit};
use stamp::Stamp;
use toolchain::Toolchain;

/// What `cargo xtask ptx` is asked to do; without options, to build.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only say whether the file is older than its sources; needs no compiler
    #[arg(long)]
    check: bool,
    /// Only assemble the file for sm_80, sm_90 and sm_100, and show registers
    /// and spills; needs ptxas
    #[arg(long)]
    assemble: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    if !arguments.check && !arguments.assemble {
        let toolchain = toolchain::find()?;
        println!("building with {}", toolchain.version);
        return UNITS.iter().try_for_each(|unit| build(&toolchain, unit));
    }
    if arguments.check {
        UNITS.iter().try_for_each(|unit| check(unit.file))?;
    }
    if arguments.assemble {
        assemble::run(&root().join(UNITS[0].file))?;
    }
    Ok(())
}

fn build(toolchain: &Toolchain, unit: &Unit) -> Result<(), Error> {
    let built = build::kernels(&root(), toolchain, unit)?;
    let stamp = Stamp::new(&root(), &toolchain.version, &built.sources, &built.ptx)?;
    write(&root().join(unit.file), &format!("{stamp}{}", built.ptx))?;
    println!("wrote {}, {} sources", unit.file, built.sources.len());
    Ok(())
}

fn check(name: &str) -> Result<(), Error> {
    let file = root().join(name);
    let text = fs::read_to_string(&file).map_err(Error::file(&file))?;
    let reasons = stamp::stale(&root(), &text)?;
    if reasons.is_empty() {
        println!("{name} is up to date");
        return Ok(());
    }
    Err(Error::Other(format!(
        "{name} is stale: {}; run `cargo xtask ptx` and commit the file",
        reasons.join(", ")
    )))
}

/// Writes a file as a whole or not at all.
fn write(file: &Path, text: &str) -> Result<(), Error> {
    let folder: PathBuf = file.parent().map(Path::to_owned).unwrap_or_default();
    fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    let mut temporary = tempfile::NamedTempFile::new_in(&folder).map_err(Error::file(&folder))?;
    temporary
        .write_all(text.as_bytes())
        .map_err(Error::file(file))?;
    make_readable(temporary.path())?;
    temporary
        .persist(file)
        .map_err(|error| Error::file(file)(error.error))?;
    Ok(())
}

/// Temporary files are for their owner alone; this one is to be everybody's.
#[cfg(unix)]
fn make_readable(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(Error::file(path))
}

#[cfg(not(unix))]
fn make_readable(_path: &Path) -> Result<(), Error> {
    Ok(())
}
