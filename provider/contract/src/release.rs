//! The releases of rdma-core whose libibverbs can load the provider. Libibverbs and its providers share structs that
//! change from release to release; the number of this *private ABI* is in the name of the file that libibverbs looks for.

use std::ops::RangeInclusive;
use std::path::Path;

/// The private ABIs that the provider knows, each with the releases of rdma-core that have it.
pub const SUPPORTED: [(u32, &str); 5] =
    [(34, "36 to 56"), (57, "57 and 58"), (59, "59 to 63"), (64, "64"), (65, "65")];

/// The private ABIs whose libibverbs finds the provider, which says that it does not know it if that is so.
pub const OFFERED: RangeInclusive<u32> = 25..=90;

/// The file that a libibverbs of a private ABI loads for the provider called `stem`.
pub fn file_name(stem: &str, abi: u32) -> String {
    format!("{stem}-rdmav{abi}.so")
}

/// The private ABI of a libibverbs with these bytes: the NN of its version node IBVERBS_PRIVATE_NN.
pub fn private_abi(library: &[u8]) -> Option<u32> {
    let start = b"IBVERBS_PRIVATE_";
    library.windows(start.len()).enumerate().find_map(|(at, window)| {
        let rest = (window == start).then(|| &library[at + start.len()..])?;
        let digits: String =
            rest.iter().take_while(|byte| byte.is_ascii_digit()).map(|&byte| char::from(byte)).collect();
        digits.parse().ok()
    })
}

/// Why the provider cannot work with a library, in words.
pub fn refusal(library: &Path, abi: u32) -> String {
    let releases = SUPPORTED.map(|(abi, releases)| format!("{abi} (rdma-core {releases})")).join(", ");
    format!("{} has private ABI {abi}; Verbena knows {releases}", library.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_abi_is_read_from_the_version_node() {
        let library = b"\x7fELF..IBVERBS_1.14\0IBVERBS_PRIVATE_34\0ibv_open";
        assert_eq!(private_abi(library), Some(34));
        assert_eq!(private_abi(b"IBVERBS_1.14"), None);
    }

    #[test]
    fn a_refusal_says_what_would_do() {
        let words = refusal(Path::new("/lib/libibverbs.so.1"), 66);
        assert!(words.starts_with("/lib/libibverbs.so.1 has private ABI 66;"), "{words}");
        assert!(words.contains("34 (rdma-core 36 to 56)") && words.contains("65 (rdma-core 65)"), "{words}");
        assert!(SUPPORTED.iter().all(|(abi, _)| OFFERED.contains(abi)));
    }
}
