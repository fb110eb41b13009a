//! Runs raw packet queue pairs: with all the cards, as the rules of any port may name a frame.

use super::env::{WallEnv, TURN};
use super::scratch::Again;
use crate::env::Env;
use crate::segment::ALL;
use crate::world::World;

impl WallEnv<'_> {
    /// Sends the frames of a raw packet queue pair, at most a turn. Each is delivered before the next one is looked at, so
    /// that it is known who has receive WQEs.
    #[cold]
    pub(super) fn run_frames(&mut self, world: &mut World, card: u16, qp: u16) {
        if self.guard.island() != ALL {
            return self.scratch.again.push(Again { card, qp, all: true });
        }
        world.resume_frames((card, qp), self);
        for _ in 0..TURN {
            let Some(frame) = world.next_frame((card, qp), self) else { return };
            if !frame.waits {
                self.carry_frame(world, &frame);
                world.frame_sent(&frame, self);
            }
            self.drop_payload(frame.payload());
            if frame.waits {
                return;
            }
        }
        self.send_later(card, qp);
    }
}
