//! The definition in the languages of the hardware team: a C header, a
//! SystemVerilog package, SystemRDL and golden vectors, as text.
//!
//! All of it is made from [`crate::catalog`], that is from the one declaration.
//! `docs/exports.md` says how each file is used.
//!
//! | file | one idea |
//! |---|---|
//! | `c`, `c_layout` | the C header, and the members of its structs |
//! | `sv` | the SystemVerilog package |
//! | `rdl` | SystemRDL |
//! | `samples`, `vectors`, `testbench` | golden entries, their files, and the test bench that reads them |
//! | `text` | names and comments |

mod c;
mod c_layout;
mod rdl;
mod samples;
mod sv;
mod testbench;
mod text;
mod vectors;

pub use samples::{samples, Entry, Part, Sample};

/// One generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path below the directory of the export.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// What can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    /// `verbena.h`: offsets, masks, values and structs for C and C++.
    C,
    /// `verbena_pkg.sv`: the same as a SystemVerilog package.
    Sv,
    /// `verbena.rdl`: the registers in SystemRDL 2.0.
    Rdl,
    /// `vectors/`: golden queue entries for `$readmemh`, their fields as JSON,
    /// and a test bench that compares them by the package's structs.
    Vectors,
}

impl Export {
    /// Every export.
    pub const ALL: [Self; 4] = [Self::C, Self::Sv, Self::Rdl, Self::Vectors];

    /// Its files.
    pub fn files(self) -> Vec<File> {
        let file = |path: &str, text| File { path: path.to_string(), text };
        match self {
            Self::C => vec![file("verbena.h", c::header())],
            Self::Sv => vec![file("verbena_pkg.sv", sv::package())],
            Self::Rdl => vec![file("verbena.rdl", rdl::map())],
            Self::Vectors => {
                let mut files = vectors::files();
                files.extend(testbench::files());
                files
            }
        }
    }
}
