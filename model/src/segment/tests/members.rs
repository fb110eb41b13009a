//! Coming, going, and those who do not behave.
#![allow(unsafe_code)]

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::super::keeper::attach::{dial, AttachError};
use super::super::keeper::protocol::{Hello, Kind, Verdict, Welcome};
use super::super::keeper::{self, KeeperError};
use super::super::{Entry, LockError, Segment, SegmentError};
use super::{eventually, options, usage_of, Net};

#[test]
fn members_share_the_world_and_leave_nothing() {
    let net = Net::start_with(|options| {
        options.init = Box::new(|segment| {
            // SAFETY: the world is 1 MiB and nobody else has it yet.
            unsafe { segment.world_ptr().write(42) };
        });
    });
    let (a, b) = (net.attach(), net.attach());
    assert_ne!(a.member(), b.member());
    assert_eq!(a.world_ptr() as usize % 4096, 0);
    assert_eq!(a.world_bytes(), 1 << 20);
    // SAFETY: inside the world; one thread.
    unsafe {
        assert_eq!(b.world_ptr().read(), 42);
        a.world_ptr().add((1 << 20) - 1).write(7);
        assert_eq!(b.world_ptr().add((1 << 20) - 1).read(), 7);
    }
    let member = a.member();
    let area = a.alloc(10_000).unwrap();
    assert_eq!(area.len, 12_288);
    assert_eq!(usage_of(&b, member).unwrap(), 12_288);
    drop(a);
    assert_eq!(net.gone.recv_timeout(Duration::from_secs(60)), Ok(member));
    assert!(eventually(|| usage_of(&b, member).is_none()));
    drop(b);
    net.finish();
}

#[test]
fn a_freed_area_reads_zero_when_it_comes_back() {
    let (_net, a) = Net::joined();
    let area = a.alloc(4096).unwrap();
    // SAFETY: the area is ours.
    unsafe { area.ptr.write_bytes(0xaa, 4096) };
    let offset = area.offset;
    a.free(area).unwrap();
    let again = a.alloc(4096).unwrap();
    assert_eq!(again.offset, offset);
    // SAFETY: as above.
    unsafe { assert_eq!(again.ptr.read(), 0) };
    assert!(matches!(a.alloc(65 << 30), Err(SegmentError::HeapFull)));
}

#[test]
fn holding_keeps_the_segment_alive() {
    let net = Net::start();
    let hold = Segment::hold(&net.socket()).unwrap();
    let flags = rustix::io::fcntl_getfd(&hold.connection).unwrap();
    assert!(flags.is_empty(), "inheritable");
    assert!(hold.namespaces.is_empty());
    std::thread::sleep(Duration::from_millis(400));
    let a = net.attach();
    // SAFETY: inside the world.
    unsafe { a.world_ptr().write(9) };
    drop(a);
    let b = net.attach();
    // SAFETY: as above.
    unsafe { assert_eq!(b.world_ptr().read(), 9) };
    drop(b);
    drop(hold);
    net.finish();
}

#[test]
fn a_keeper_that_nobody_calls_ends() {
    let begin = Instant::now();
    Net::start().finish();
    assert!(begin.elapsed() < Duration::from_secs(20));
}

/// A program that is started on a net comes to it by its path.
#[test]
fn a_keeper_without_a_path_is_not_held() {
    let net = Net::start_with(|options| options.on_alone = Box::new(|_, _| true));
    // The way of who found the file before it was removed.
    let before = net.directory.path().join("before");
    std::fs::hard_link(net.socket(), &before).unwrap();
    drop(net.attach());
    assert!(eventually(|| !net.socket().exists()), "it does not end");
    let held = Segment::hold(&before);
    assert!(matches!(held, Err(AttachError::Closed(_) | AttachError::NoKeeper(_))), "{held:?}");
    net.finish();
}

#[test]
fn one_keeper_for_a_path() {
    let (net, member) = Net::joined();
    let second = keeper::run(options(net.socket()));
    assert!(matches!(second, Err(KeeperError::AlreadyRunning(_))));
    // A stale file is replaced.
    let socket = net.socket();
    drop(member);
    let Net { directory, keeper, .. } = net;
    keeper.unwrap().join().unwrap().unwrap();
    std::fs::create_dir(socket.parent().unwrap()).unwrap();
    std::fs::set_permissions(socket.parent().unwrap(), PermissionsExt::from_mode(0o700)).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    keeper::run(options(socket.clone())).unwrap();
    assert!(!socket.exists());
    assert!(socket.parent().unwrap().exists(), "not ours to remove");
    drop(directory);
}

#[test]
fn a_directory_open_to_others_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let result = keeper::run(options(directory.path().join("socket")));
    assert!(matches!(result, Err(KeeperError::UnsafeDirectory(_))));
}

#[test]
fn nobody_there_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let error = Segment::attach(&directory.path().join("socket")).err().unwrap();
    assert!(matches!(error, AttachError::NoKeeper(_)));
    assert!(error.to_string().contains("verbena run"));
    let long = directory.path().join("x".repeat(200));
    let error = Segment::attach(&long).err().unwrap();
    assert!(matches!(error, AttachError::PathTooLong(_)));
}

#[test]
fn strange_clients_do_no_harm() {
    let (net, member) = Net::joined();
    let send = |bytes: &[u8]| {
        let socket = dial(&net.socket()).unwrap();
        rustix::net::send(&socket, bytes, rustix::net::SendFlags::NOSIGNAL).unwrap();
        socket
    };
    let mut answer = [0; 64];
    for bytes in [&b"GET / HTTP/1.1"[..], &[0xff; 200]] {
        let socket = send(bytes);
        let (got, _) =
            rustix::net::recv(&socket, &mut answer, rustix::net::RecvFlags::empty()).unwrap_or((0, 0));
        assert_eq!(got, 0, "dropped");
    }
    // Another version is told so.
    let hello = Hello { version: 1, kind: Kind::Member };
    let socket = send(&hello.encode());
    let (got, _) = rustix::net::recv(&socket, &mut answer, rustix::net::RecvFlags::empty()).unwrap();
    let welcome = Welcome::decode(&answer[..got]).unwrap();
    assert_eq!(welcome.verdict, Verdict::OTHER_VERSION);
    // Silent ones are turned away when they are too many, and hold up nobody; one that the machine stops takes longer.
    let quick = (0..5).any(|_| {
        let _silent: Vec<_> = (0..100).map(|_| dial(&net.socket()).unwrap()).collect();
        let begin = Instant::now();
        let result = Segment::attach(&net.socket());
        let took = begin.elapsed();
        // Among a hundred that say nothing the newcomer may be turned away itself.
        assert!(matches!(result, Ok(_) | Err(AttachError::Closed(_))));
        took < keeper::GREETING
    });
    assert!(quick, "five times it takes as long as silent ones may");
    assert!(eventually(|| Segment::attach(&net.socket()).is_ok()));
    drop(member);
    net.finish();
    std::io::stdout().flush().unwrap();
}

#[test]
fn all_indices_can_be_used_and_come_back() {
    let net = Net::start();
    // It would end with the last of them.
    let _hold = Segment::hold(&net.socket()).unwrap();
    let all: Vec<_> = (0..255).map(|_| net.attach()).collect();
    assert!(matches!(Segment::attach(&net.socket()), Err(AttachError::Full)));
    drop(all);
    assert!(eventually(|| Segment::attach(&net.socket()).is_ok()));
}

#[test]
fn the_lock_excludes_and_names_its_holder() {
    let net = Net::start();
    let (a, b) = (net.attach(), net.attach());
    let guard = a.try_lock().unwrap();
    assert!(!guard.recovered());
    assert!(b.try_lock().is_none());
    let other = b.clone();
    let waiter = std::thread::spawn(move || match other.lock(Duration::from_millis(30)).err().unwrap() {
        LockError::TimedOut { pid, .. } => pid,
        error => panic!("{error}"),
    });
    assert_eq!(waiter.join().unwrap(), std::process::id());
    assert!(matches!(a.lock(Duration::from_millis(30)), Err(LockError::Recursive)));
    drop(guard);
    drop(b.lock(Duration::from_millis(30)).unwrap());
}

#[test]
fn others_go_on_while_one_waits_for_a_thread_in_an_island() {
    let net = Net::start();
    let (a, b) = (net.attach(), net.attach());
    let guard = a.lock(Duration::from_secs(5)).unwrap();
    let [stopped, free] = [0, 1].map(|any| guard.new_island(any));
    drop(guard);
    let Entry::Entered(stays) = a.enter(stopped) else { panic!("nobody is there") };
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| drop(b.lock(Duration::from_secs(60)).unwrap()));
        assert!(eventually(|| a.is_stopped()));
        let other = scope.spawn(|| eventually(|| matches!(b.enter(free), Entry::Entered(_))));
        assert!(other.join().unwrap(), "the gate is open now and then");
        assert!(!waits.is_finished());
        drop(stays);
    });
}

/// A thread that is in its island nearly all the time, for longer than the gate is closed at first.
#[test]
fn all_the_cards_are_to_be_had_between_two_runs_of_an_island() {
    let net = Net::start();
    let (a, b) = (net.attach(), net.attach());
    let island = b.lock(Duration::from_secs(20)).unwrap().new_island(0);
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                match a.enter(island) {
                    Entry::Entered(_inside) => std::thread::sleep(Duration::from_millis(50)),
                    _ => std::thread::yield_now(),
                }
            }
        });
        for _ in 0..5 {
            let start = Instant::now();
            let guard = b.lock(Duration::from_secs(20));
            // Runs of 50 ms: it is closed for 10, 20, 40 and 80.
            let (had, took) = (guard.map(drop), start.elapsed());
            let good = had.is_ok() && took < Duration::from_secs(10);
            end.store(!good, Ordering::Relaxed);
            assert!(good, "{had:?} after {took:?}");
            std::thread::sleep(Duration::from_millis(60));
        }
        end.store(true, Ordering::Relaxed);
    });
}

/// The lock may not be had at once.
#[test]
fn the_last_member_is_cleaned_up_after() {
    let (report, cleaned) = channel();
    let net = Net::start_with(move |options| {
        let mut tries = 0;
        options.on_member_gone = Box::new(move |_, member| {
            tries += 1;
            let done = tries == 4;
            if done {
                report.send(member).unwrap();
            }
            done
        });
    });
    let member = net.attach();
    let number = member.member();
    drop(member);
    net.finish();
    assert_eq!(cleaned.try_recv(), Ok(number));
}

#[test]
fn a_keeper_ends_whatever_is_left_to_do() {
    for alone in [true, false] {
        let net = Net::start_with(move |options| {
            options.on_member_gone = Box::new(move |_, _| alone);
            options.on_alone = Box::new(move |_, _| alone);
        });
        let start = Instant::now();
        drop(net.attach());
        net.finish();
        let took = start.elapsed();
        assert!((Duration::from_secs(1)..Duration::from_secs(20)).contains(&took), "{took:?}");
    }
}
