//! `dheap devices`.

use clap::Args;

use super::error::CliError;

pub(super) const EXAMPLES: &str = "\
This lists GPUs in a build with --features cuda on a machine with an NVIDIA
driver; elsewhere it says what is missing, with exit code 2 or 1.";

#[derive(Debug, Args)]
pub(super) struct DevicesArgs {
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

#[cfg(not(feature = "cuda"))]
pub(super) fn devices(args: &DevicesArgs) -> Result<(), CliError> {
    let _ = args.json;
    Err(CliError::usage(
        "this build of the program has no GPU backend; build it with --features cuda",
    ))
}

#[cfg(feature = "cuda")]
pub(super) fn devices(args: &DevicesArgs) -> Result<(), CliError> {
    use super::output::{mib, print, print_json, table, yes};

    let all = device_heap::cuda::devices().map_err(CliError::work)?;
    let version = |(major, minor): (i32, i32)| format!("{major}.{minor}");
    if args.json {
        let devices: Vec<_> = all
            .iter()
            .map(|info| {
                serde_json::json!({
                    "index": info.index,
                    "name": info.name,
                    "compute_capability": version(info.capability),
                    "multiprocessors": info.multiprocessors,
                    "memory_bytes": info.memory_bytes,
                    "driver_cuda": version(info.cuda),
                    "supported": info.is_supported(),
                })
            })
            .collect();
        return print_json(&serde_json::json!({ "devices": devices }));
    }
    let header = [
        "name",
        "index",
        "capability",
        "SMs",
        "MiB",
        "driver's CUDA",
        "supported",
    ];
    let rows = all.iter().map(|info| {
        [
            info.name.clone(),
            info.index.to_string(),
            version(info.capability),
            info.multiprocessors.to_string(),
            mib(info.memory_bytes),
            version(info.cuda),
            yes(info.is_supported()),
        ]
    });
    print(&table(header, rows.collect()))
}
