//! `verbena export`: the card's definition as files for the hardware team.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fpga_regs::export::Export;

/// Options of `verbena export`.
#[derive(Args)]
pub struct ExportArgs {
    /// What to write
    what: What,
    /// Directory to write to; it is made where it is missing
    #[arg(long, value_name = "DIR", default_value = "verbena-export")]
    out: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// verbena.h: offsets, masks, values and structs for C and C++
    C,
    /// verbena_pkg.sv: the same as a SystemVerilog package
    Sv,
    /// verbena.rdl: the registers in SystemRDL 2.0
    Rdl,
    /// vectors/: golden queue entries as hex and JSON, with a test bench
    Vectors,
    /// All of them
    All,
}

/// Writes the files and says which.
pub fn export(args: ExportArgs) -> Result<u8> {
    let exports = match args.what {
        What::C => vec![Export::C],
        What::Sv => vec![Export::Sv],
        What::Rdl => vec![Export::Rdl],
        What::Vectors => vec![Export::Vectors],
        What::All => Export::ALL.to_vec(),
    };
    for file in exports.into_iter().flat_map(Export::files) {
        let path = args.out.join(file.path);
        let directory = path.parent().unwrap_or(&args.out);
        fs::create_dir_all(directory).with_context(|| {
            format!("making the directory {} (another place: --out DIR)", directory.display())
        })?;
        fs::write(&path, file.text)
            .with_context(|| format!("writing {} (another place: --out DIR)", path.display()))?;
        say!("{}", path.display());
    }
    Ok(0)
}
