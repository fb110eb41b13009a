//! Links the driver with DPDK's libraries by their names alone. EAL loads a driver apart from those that the program is
//! linked with, and not every program is linked with all of them; DPDK itself is not needed to build.

use std::path::PathBuf;
use std::process::Command;

/// The libraries whose functions are called, and the number of their ABI.
const LIBRARIES: [&str; 5] = ["rte_eal", "rte_mempool", "rte_mbuf", "rte_ethdev", "rte_bus_vdev"];
const ABI: u32 = 23;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("set by cargo"));
    let linker = std::env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-search=native={}", out.display());
    // Nothing of an empty library is needed, so a linker that leaves such ones out has to be told.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--no-as-needed");
    for library in LIBRARIES {
        let file = out.join(format!("lib{library}.so"));
        let name = format!("-Wl,-soname,lib{library}.so.{ABI}");
        let linked = Command::new(&linker)
            .args(["-shared", "-nostdlib", "-x", "assembler", "/dev/null", "-o"])
            .arg(&file)
            .arg(&name)
            .status();
        assert!(linked.is_ok_and(|status| status.success()), "{linker:?} makes no {}", file.display());
        println!("cargo:rustc-cdylib-link-arg=-l{library}");
    }
}
