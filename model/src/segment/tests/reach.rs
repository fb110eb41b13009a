//! Memory that stays private to another process.
#![allow(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use super::super::{Backing, DmaFault, Segment};
use super::child::{tell, wait, Other};
use super::{Buffer, Net};

const LEN: usize = 3 * 4096;

/// Child: registers a buffer whose edges stay private, tells where, and later
/// what is in it.
pub(super) fn private_buffer(socket: &Path) {
    let segment = Segment::attach(socket).unwrap();
    let buffer = Buffer::filled(LEN + 8192, 2);
    let start = buffer.ptr.wrapping_add(1000);
    segment.map(start, LEN, true).unwrap();
    tell(&[segment.member().into(), start as u64]);
    while wait() {
        let sum: u64 = buffer.bytes().iter().map(|&byte| u64::from(byte)).sum();
        tell(&[sum]);
    }
}

#[test]
fn copies_reach_other_processes_both_ways() {
    let (net, a) = Net::joined();
    let mut other = Other::start("private_buffer", &net.socket());
    let mut third = Other::start("private_buffer", &net.socket());
    let told = other.hear();
    let (member, iova) = (told[0] as u16, told[1]);
    let told = third.hear();
    let (third_member, third_iova) = (told[0] as u16, told[1]);
    let mine = Buffer::new(LEN + 4096);
    let mine_at = mine.iova() + 8;
    a.map(mine.ptr.wrapping_add(8), LEN, true).unwrap();
    let me = a.member();
    let guard = a.lock(Duration::from_secs(5)).unwrap();
    assert_eq!(guard.resolve(member, iova).unwrap().0, Backing::Private);

    // From there to here.
    let expected: Vec<u8> = (1000..1000 + LEN).map(|i| super::pattern(i, 2)).collect();
    guard.copy((me, mine_at), (member, iova), LEN as u64).unwrap();
    assert_eq!(mine.bytes()[8..8 + LEN], expected);
    let mut read = vec![0; LEN];
    guard.read(member, iova, &mut read).unwrap();
    assert_eq!(read, expected);

    // From here to there, and between two others.
    mine.bytes().fill(3);
    guard.copy((member, iova), (me, mine_at), LEN as u64).unwrap();
    guard.copy((third_member, third_iova + 1), (member, iova), LEN as u64 - 1).unwrap();
    guard.write(third_member, third_iova, &[9]).unwrap();

    // Beyond what is registered.
    let beyond = guard.copy((member, iova), (me, mine_at), LEN as u64 + 1);
    assert_eq!(beyond, Err(DmaFault::NotMapped { member, iova: iova + LEN as u64 }));
    assert!(guard.read(250, iova, &mut read).is_err());
    assert!(guard.read(999, iova, &mut read).is_err());
    guard.copy((member, 0), (me, 0), 0).unwrap();
    drop(guard);

    let outside: u64 = (0..LEN + 8192)
        .filter(|i| !(1000..1000 + LEN).contains(i))
        .map(|i| u64::from(super::pattern(i, 2)))
        .sum();
    other.go_on();
    assert_eq!(other.hear(), [outside + 3 * LEN as u64]);
    third.go_on();
    assert_eq!(third.hear(), [outside + 3 * (LEN as u64 - 1) + 9]);
    other.finish();
    third.kill();
}
