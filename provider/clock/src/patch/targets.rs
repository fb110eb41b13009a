//! Who jumps where: a search of all code of a mapping, at every byte, since nobody says where its
//! instructions begin. What is found may be none; what is there is found.

use std::ops::Range;

/// True if `code`, which lies at `base`, may have an instruction that jumps to, calls or takes an address
/// `inside`.
pub fn any(code: &[u8], base: usize, inside: Range<usize>) -> bool {
    near(code, base, &inside)
        || code.windows(4).enumerate().any(|(at, bytes)| {
            let operand = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            let target = (base + at + 4).wrapping_add_signed(operand as i32 as isize);
            inside.contains(&(operand as usize)) || inside.contains(&target) && is_relative(&code[..at])
        })
}

/// Jumps with one byte: `jmp`, the conditional ones, `loop` and its kind, `jrcxz`.
fn near(code: &[u8], base: usize, inside: &Range<usize>) -> bool {
    let from = inside.start.saturating_sub(base + 130);
    let to = (inside.end + 128).saturating_sub(base).min(code.len());
    code.get(from..to).unwrap_or_default().windows(2).zip(base + from..).any(|(bytes, at)| {
        let target = (at + 2).wrapping_add_signed(isize::from(bytes[1] as i8));
        matches!(bytes[0], 0x70..=0x7f | 0xe0..=0xe3 | 0xeb) && inside.contains(&target)
    })
}

/// True if the code before four bytes makes them a displacement from their end: that of `call`, `jmp`,
/// the conditional jumps, `lea`, or `xbegin`.
fn is_relative(before: &[u8]) -> bool {
    match before {
        [.., 0xe8 | 0xe9] | [.., 0x0f, 0x80..=0x8f] | [.., 0xc7, 0xf8] => true,
        [.., 0x8d, modrm] => modrm & 0xc7 == 0x05,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::any;

    const BASE: usize = 0x7f00_0000_0000;

    /// 1000 bytes of no-operations with `code` at 500.
    fn with(code: &[u8]) -> Vec<u8> {
        let mut all = vec![0x90; 1000];
        all[500..500 + code.len()].copy_from_slice(code);
        all
    }

    #[test]
    fn jumps_are_found() {
        let cases: [(&[u8], usize); 9] = [
            (&[0xeb, 0x10], 500 + 2 + 0x10),
            (&[0x75, 0x80], 500 + 2 - 0x80),
            (&[0xe2, 0x7f], 500 + 2 + 0x7f),
            (&[0xe9, 0x00, 0x01, 0, 0], 500 + 5 + 0x100),
            (&[0xe8, 0x00, 0xff, 0xff, 0xff], 500 + 5 - 0x100),
            (&[0x0f, 0x84, 0x00, 0x01, 0, 0], 500 + 6 + 0x100),
            (&[0x48, 0x8d, 0x05, 0x00, 0x01, 0, 0], 500 + 7 + 0x100),
            (&[0x4c, 0x8d, 0x3d, 0x00, 0x01, 0, 0], 500 + 7 + 0x100),
            (&[0xc7, 0xf8, 0x00, 0x01, 0, 0], 500 + 6 + 0x100),
        ];
        for (code, target) in cases {
            let (code, target) = (with(code), BASE + target);
            assert!(any(&code, BASE, target..target + 1), "{code:02x?}");
            assert!(any(&code, BASE, target - 3..target + 1), "{code:02x?}");
            assert!(!any(&code, BASE, target + 1..target + 4), "{code:02x?}");
            assert!(!any(&code, BASE, target - 4..target), "{code:02x?}");
        }
    }

    #[test]
    fn what_does_not_jump_is_none() {
        assert!(!any(&with(&[0xb8, 0x00, 0x01, 0, 0]), BASE, BASE + 605..BASE + 606)); // mov $256, %eax
        assert!(!any(&with(&[]), BASE, BASE..BASE + 1000));
        assert!(!any(&[], BASE, BASE..BASE + 1000));
    }

    #[test]
    fn addresses_below_4_gib_are_found() {
        assert!(any(&with(&[0xb8, 0x34, 0x12, 0x40, 0]), 0x40_1000, 0x40_1231..0x40_1235));
    }
}
