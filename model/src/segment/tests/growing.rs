//! Buffers that grow, and many of them.
#![allow(unsafe_code)]

use super::super::Backing;
use super::{backing, Buffer, Net};

const PAGE: usize = 4096;

#[test]
fn a_buffer_does_not_grow_over_what_follows_it_in_the_segment() {
    let (_net, a) = Net::joined();
    for pages in [2, 3, 64] {
        let (one, other) = (Buffer::filled(pages * PAGE, 1), Buffer::filled(pages * PAGE, 2));
        a.map(one.ptr, one.len, true).unwrap();
        a.map(other.ptr, other.len, true).unwrap();
        // All of it, in place or elsewhere; and its last page, which is what would grow.
        for flags in [0, libc::MREMAP_MAYMOVE] {
            // SAFETY: our own mapping.
            let grown = unsafe { libc::mremap(one.ptr.cast(), one.len, 2 * one.len, flags) };
            assert_eq!(grown, libc::MAP_FAILED, "{pages} pages");
        }
        assert!(one.is_pattern(1) && other.is_pattern(2));
        a.unmap(one.ptr, one.len).unwrap();
        a.unmap(other.ptr, other.len).unwrap();
        // Afterwards it may.
        // SAFETY: as above.
        unsafe {
            let grown = libc::mremap(one.ptr.cast(), one.len, 2 * one.len, libc::MREMAP_MAYMOVE);
            assert_ne!(grown, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
            let all = std::slice::from_raw_parts(grown.cast::<u8>(), 2 * one.len);
            assert!(all[one.len..].iter().all(|&byte| byte == 0));
            libc::munmap(grown, 2 * one.len);
        }
        let all = 0..one.len;
        one.end_without(all);
    }
}

#[test]
fn a_page_that_is_a_mapping_of_its_own_stays() {
    let (_net, a) = Net::joined();
    let three = Buffer::filled(3 * PAGE, 3);
    let page = three.ptr.wrapping_add(PAGE);
    // Nothing can be read or written beside it. Unmapped pages would not do: what other threads map there joins the mapping.
    for edge in [three.ptr, page.wrapping_add(PAGE)] {
        // SAFETY: our own mapping.
        assert_eq!(unsafe { libc::mprotect(edge.cast(), PAGE, libc::PROT_NONE) }, 0);
    }
    a.map(page, PAGE, true).unwrap();
    assert_eq!(backing(&a, page as u64), Some((Backing::Private, PAGE as u64)));
    a.unmap(page, PAGE).unwrap();
}

/// A buffer on the stack of another thread stays there, as one on the caller's own does.
#[test]
fn stacks_of_other_threads_stay() {
    let (_net, a) = Net::joined();
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        let mut here = [7_u8; 6 * PAGE];
        tell.send(here.as_mut_ptr() as usize).unwrap();
        let _ = ended.recv();
        here.iter().map(|&byte| u32::from(byte)).sum::<u32>()
    });
    let at = told.recv().unwrap();
    // The buffers of this test's own memory move as ever.
    let buffer = Buffer::filled(4 * PAGE, 1);
    a.map(buffer.ptr, buffer.len, true).unwrap();
    a.map(at as *mut u8, 6 * PAGE, true).unwrap();
    assert_eq!(backing(&a, at as u64), Some((Backing::Private, 6 * PAGE as u64)));
    assert!(matches!(backing(&a, buffer.iova()), Some((Backing::Extent(_), _))));
    a.unmap(at as *mut u8, 6 * PAGE).unwrap();
    a.unmap(buffer.ptr, buffer.len).unwrap();
    end.send(()).unwrap();
    assert_eq!(other.join().unwrap(), 7 * 6 * PAGE as u32);
}

/// A thread may have announced a list of robust futexes that is not the C library's, in a buffer that is registered.
#[test]
fn a_list_that_is_none_of_the_c_library_tells_of_no_stack() {
    let (_net, a) = Net::joined();
    let buffer = Buffer::filled(4 * PAGE, 1);
    let head = buffer.ptr as usize + 2 * PAGE;
    let (tell, told) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        let (mut before, mut len) = (0_usize, 0_usize);
        // SAFETY: an empty list that stays as long as it is announced; the C library's takes its place again.
        unsafe {
            (head as *mut [usize; 3]).write([head, 0, 0]);
            libc::syscall(libc::SYS_get_robust_list, 0, &raw mut before, &raw mut len);
            assert_eq!(libc::syscall(libc::SYS_set_robust_list, head, len), 0);
            tell.send(()).unwrap();
            let _ = ended.recv();
            assert_eq!(libc::syscall(libc::SYS_set_robust_list, before, len), 0);
        }
    });
    told.recv().unwrap();
    a.map(buffer.ptr, buffer.len, true).unwrap();
    assert!(matches!(backing(&a, buffer.iova()), Some((Backing::Extent(_), _))));
    end.send(()).unwrap();
    other.join().unwrap();
    a.unmap(buffer.ptr, buffer.len).unwrap();
}
