//! What ptxas makes of the PTX: registers, stack and spills of each kernel.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::Error;

const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

/// Kernels that may not spill a register, and how many bytes ptxas may count
/// all the same: it keeps a convergence barrier in local memory around the call
/// that serves the rare case, and reports that as a spill. What is rare in these
/// kernels is in functions of its own, which may spill.
const HOT: [(&str, u32); 2] = [("dh_alloc", 8), ("dh_free", 0)];

/// One kernel on one architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Usage {
    kernel: String,
    registers: u32,
    /// Its own and that of the functions that it calls, the deepest way.
    stack_bytes: u32,
    /// Spilled by the kernel itself.
    spill_bytes: u32,
    /// Spilled by the functions that it calls.
    callee_bytes: u32,
}

pub(super) fn run(file: &Path) -> Result<(), Error> {
    let ptxas = find()?;
    let reports = thread::scope(|scope| {
        let handles = ARCHITECTURES.map(|arch| scope.spawn(|| assemble(&ptxas, file, arch)));
        handles.map(|handle| {
            handle
                .join()
                .unwrap_or_else(|_| Err(Error::Other("a thread failed".into())))
        })
    });
    let mut spilling = Vec::new();
    for (arch, report) in ARCHITECTURES.into_iter().zip(reports) {
        let usages = parse(&report?);
        for (hot, allowed) in HOT {
            let Some(usage) = usages.iter().find(|usage| usage.kernel == hot) else {
                return Err(Error::Other(format!("ptxas names no {hot} for {arch}")));
            };
            if usage.spill_bytes > allowed {
                spilling.push(format!("{hot} on {arch}"));
            }
        }
        print(arch, &usages);
    }
    if spilling.is_empty() {
        Ok(())
    } else {
        Err(Error::Other(format!(
            "registers are spilled in {}",
            spilling.join(", ")
        )))
    }
}

fn print(arch: &str, usages: &[Usage]) {
    println!(
        "{arch}: {:<20} registers  stack  spills  spills of callees (bytes)",
        "kernel"
    );
    for Usage {
        kernel,
        registers,
        stack_bytes,
        spill_bytes,
        callee_bytes,
    } in usages
    {
        println!(
            "{:>width$} {kernel:<20} {registers:>9} {stack_bytes:>6} {spill_bytes:>7} {callee_bytes:>7}",
            "",
            width = arch.len() + 1
        );
    }
}

/// The program that `PTXAS` names, or the first one found.
fn find() -> Result<PathBuf, Error> {
    if let Some(named) = env::var_os("PTXAS") {
        return Ok(PathBuf::from(named));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/local/cuda/bin")]);
    folders.map(|folder| folder.join("ptxas")).find(|file| file.is_file()).ok_or_else(|| {
        Error::Other(
            "no ptxas found; it comes with the CUDA toolkit, or from PyPI (`pip install nvidia-cuda-nvcc`, \
             then nvidia/cu13/bin/ptxas in its site-packages); name it in PTXAS"
                .to_owned(),
        )
    })
}

fn assemble(ptxas: &Path, file: &Path, arch: &str) -> Result<String, Error> {
    let output = tempfile::NamedTempFile::new().map_err(Error::file(file))?;
    let result = Command::new(ptxas)
        .args(["-v", "-arch", arch])
        .arg(file)
        .arg("-o")
        .arg(output.path())
        .output()
        .map_err(|source| Error::Run {
            program: ptxas.display().to_string(),
            source,
        })?;
    let report = String::from_utf8_lossy(&result.stdout) + String::from_utf8_lossy(&result.stderr);
    if result.status.success() {
        Ok(report.into_owned())
    } else {
        Err(Error::Other(format!(
            "ptxas refuses the file for {arch}: {}",
            report.trim()
        )))
    }
}

/// Reads ptxas's notes. Stack and spills of a kernel stand before those of the
/// functions that it calls.
fn parse(report: &str) -> Vec<Usage> {
    let mut usages: Vec<Usage> = Vec::new();
    let mut of_kernel = false;
    for line in report.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            usages.push(Usage {
                kernel,
                ..Usage::default()
            });
        } else if let Some((_, function)) = line.split_once("Function properties for ") {
            of_kernel = usages.last().is_some_and(|u| u.kernel == function.trim());
        } else if let Some(usage) = usages.last_mut() {
            if let Some(registers) = number_before(line, " registers") {
                usage.registers = registers;
            } else if let Some(stack) = number_before(line, " bytes stack frame") {
                let spills = ["stores", "loads"]
                    .map(|what| number_before(line, &format!(" bytes spill {what}")).unwrap_or(0));
                if of_kernel {
                    usage.stack_bytes = stack;
                    usage.spill_bytes += spills[0] + spills[1];
                } else {
                    usage.callee_bytes += spills[0] + spills[1];
                }
            }
        }
    }
    usages.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    usages
}

/// The number right before `words` in `line`.
fn number_before(line: &str, words: &str) -> Option<u32> {
    let (before, _) = line.split_once(words)?;
    before
        .rsplit(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_the_assembler_are_read() {
        let report = "\
ptxas info    : 909 bytes gmem
ptxas info    : Compiling entry function 'dh_free' for 'sm_90'
ptxas info    : Function properties for dh_free
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 69 registers, used 0 barriers
ptxas info    : Function properties for callee
    32 bytes stack frame, 1 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'dh_alloc' for 'sm_90'
ptxas info    : Function properties for dh_alloc
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 188 registers, used 0 barriers, 208 bytes cumulative stack size
";
        let usage = |kernel: &str, registers, stack_bytes, spill_bytes, callee_bytes| Usage {
            kernel: kernel.to_owned(),
            registers,
            stack_bytes,
            spill_bytes,
            callee_bytes,
        };
        assert_eq!(
            parse(report),
            [
                usage("dh_alloc", 188, 0, 0, 0),
                usage("dh_free", 69, 8, 16, 1)
            ]
        );
    }
}
