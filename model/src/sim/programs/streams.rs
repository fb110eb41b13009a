//! Byte streams between programs carry time: the reader of a byte is no earlier than its writer.

use crate::plain::{Flag, Plain};
use crate::sim::state::{Sim, FOREVER};
use contract::clock::kind::{LISTEN, PIPE};
use contract::clock::UNCOUNTED;

/// Streams known at a time.
const STREAMS: usize = 256;
/// Messages of a stream whose times are kept.
const CHUNKS: usize = 64;

/// One direction of a stream: kind, writer, reader (both ends derive it alike).
pub type Key = (u32, u64, u64);

/// What an actor waits for: bytes of a stream beyond a position.
#[derive(Clone, Copy, Debug, Default, Plain)]
#[repr(C)]
pub struct Wait {
    /// The stream.
    pub key: Key,
    /// Read so far.
    pub position: u64,
}

#[derive(Clone, Copy, Plain)]
#[repr(C)]
struct Stream {
    key: Key,
    used: Flag,
    closed: Flag,
    /// Nothing of it is counted (connections, datagrams): how many wait.
    pending: u32,
    /// Bytes written.
    end: u64,
    /// Running number of chunks.
    chunks: u64,
    /// Position at the end of a chunk, and when it was written.
    times: [(u64, u64); CHUNKS],
    /// When it was used last.
    touched: u64,
}

/// The streams of a simulation.
#[derive(Plain)]
#[repr(C)]
pub struct Streams {
    count: u32,
    all: [Stream; STREAMS],
}

/// Streams whose positions are not counted.
fn uncounted(end: u64) -> bool {
    end == UNCOUNTED
}

impl Streams {
    fn find(&mut self, key: Key) -> Option<&mut Stream> {
        self.all[..self.count as usize].iter_mut().find(|s| s.used.get() && s.key == key)
    }

    fn find_or_make(&mut self, key: Key, now: u64) -> &mut Stream {
        let n = self.count as usize;
        let found = self.all[..n].iter().position(|s| s.used.get() && s.key == key);
        let at = found.unwrap_or_else(|| {
            let at = if n < STREAMS {
                self.count += 1;
                n
            } else {
                // The one that was unused for longest.
                (0..STREAMS).min_by_key(|&i| self.all[i].touched).unwrap_or(0)
            };
            self.all[at].key = key;
            self.all[at].used = true.into();
            self.all[at].closed = Flag::NO;
            (self.all[at].pending, self.all[at].end, self.all[at].chunks) = (0, 0, 0);
            at
        });
        self.all[at].touched = now;
        &mut self.all[at]
    }

    fn ready(&mut self, wait: &Wait) -> bool {
        self.find(wait.key).is_some_and(|s| s.closed.get() || s.pending > 0 || s.end > wait.position)
    }
}

impl Sim {
    /// Bytes before `end` are about to be written at the writer's time `at`.
    pub fn stream_sent(&mut self, key: Key, end: u64, at: u64) {
        let stream = self.streams.find_or_make(key, at);
        if uncounted(end) {
            stream.pending += 1;
        } else {
            if end < stream.end || stream.closed.get() {
                // Opened again.
                (stream.chunks, stream.closed) = (0, Flag::NO);
            }
            let again = stream.chunks > 0 && stream.end == end;
            stream.end = end;
            if !again {
                stream.times[(stream.chunks % CHUNKS as u64) as usize] = (end, at);
                stream.chunks += 1;
            }
        }
        self.release_reader(key, end, at + self.latency(key));
    }

    /// A message's way from one program to another. Within a process it takes no time, and a connection has come already.
    fn latency(&self, key: Key) -> u64 {
        if matches!(key.0, LISTEN | PIPE) {
            0
        } else {
            self.profile.host.tcp_ps
        }
    }

    /// The writing end was closed at the writer's time `at`.
    pub fn stream_closed(&mut self, key: Key, at: u64) {
        self.streams.find_or_make(key, at).closed = true.into();
        self.release_reader(key, FOREVER, at + self.latency(key));
    }

    fn release_reader(&mut self, key: Key, end: u64, at: u64) {
        let reads = |w: &Wait| w.key == key && w.position < end;
        let reader = self.actors.blocked().find(|(_, waits)| waits.iter().any(reads)).map(|(i, _)| i);
        if let Some(reader) = reader {
            let reader = &mut self.actors.all[reader];
            reader.release(at);
            reader.promised = true.into();
        }
    }

    /// The earliest time at which the reader of the bytes before `end` can be; 0 if they are not known.
    pub fn stream_received(&mut self, key: Key, end: u64) -> u64 {
        let latency = self.latency(key);
        let Some(stream) = self.streams.find(key) else { return 0 };
        if uncounted(end) {
            stream.pending = stream.pending.saturating_sub(1);
            return 0;
        }
        let kept = stream.chunks.saturating_sub(CHUNKS as u64)..stream.chunks;
        let sent = kept.map(|n| stream.times[(n % CHUNKS as u64) as usize]).find(|&(upto, _)| upto >= end);
        sent.map_or(0, |(_, at)| at + latency)
    }

    /// Whether something that is waited for has been written already.
    pub fn stream_ready(&mut self, waits: &[Wait]) -> bool {
        waits.iter().any(|w| self.streams.ready(w))
    }
}
