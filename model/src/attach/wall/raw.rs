//! Runs raw packet queue pairs.

use super::env::{WallEnv, TURN};
use super::scratch::Again;
use crate::env::Env;
use crate::segment::ALL;
use crate::world::World;

impl WallEnv<'_> {
    /// Sends the frames of a raw packet queue pair, at most a turn, on the express lane as far as possible. Each is delivered
    /// before the next one is looked at, so that it is known who has receive WQEs.
    #[inline(never)]
    pub(super) fn run_frames(&mut self, world: &mut World, card: u16, qp: u16) {
        let all = self.guard.island() == ALL;
        if !all && !self.mode.is_linked() && world.express_frames(card, qp, self) {
            return;
        }
        self.forget_routes_of(card, qp);
        if !all && world.is_awaited((card, qp)) {
            // By queue pairs of any island.
            return self.scratch.again.push(Again { card, qp, all: true });
        }
        world.resume_frames((card, qp), self);
        for _ in 0..TURN {
            let Some(frame) = world.next_frame((card, qp), self) else { return };
            if !frame.waits {
                self.carry_frame(world, &frame);
                world.frame_sent(&frame, self);
                if all {
                    // The next frame to them, or to nobody, needs only their island.
                    self.join(world, [Some((card, qp.into())), None]);
                    frame.ends().for_each(|ends| self.join(world, ends));
                }
            }
            self.drop_payload(frame.payload());
            if frame.waits {
                return;
            }
        }
        self.send_later(card, qp);
    }
}

#[cfg(test)]
#[path = "raw_tests.rs"]
mod tests;
