//! The queue pairs that get a copy of a frame.

/// Most copies of a frame.
const MOST: usize = 256;

/// A list of queue pairs, by card and index, in which each is once.
pub(crate) struct Copies {
    list: [(u8, u16); MOST],
    len: usize,
    /// Copies for which there was no room.
    pub lost: u32,
}

impl Copies {
    /// None.
    pub fn new() -> Copies {
        Copies { list: [(0, 0); MOST], len: 0, lost: 0 }
    }

    /// A queue pair gets a copy.
    pub fn add(&mut self, place: (u8, u16)) {
        if self.all().contains(&place) {
            return;
        }
        match self.list.get_mut(self.len) {
            Some(free) => {
                *free = place;
                self.len += 1;
            }
            None => self.lost += 1,
        }
    }

    /// Those from place `from` on stay that are to.
    pub fn keep(&mut self, from: usize, stays: impl Fn((u8, u16)) -> bool) {
        let mut kept = from;
        for n in from..self.len {
            if stays(self.list[n]) {
                self.list[kept] = self.list[n];
                kept += 1;
            }
        }
        self.len = kept;
    }

    /// All of them.
    pub fn all(&self) -> &[(u8, u16)] {
        &self.list[..self.len]
    }
}
