//! Memory windows: bind, invalidate (IB spec 10.6.7).

use fpga_regs::{Access, CqeStatus, Syndrome, WqeBind};

use super::gather::LocalError;
use super::tables::key_kind;
use super::Device;

fn bind_error(syndrome: Syndrome) -> LocalError {
    LocalError { status: CqeStatus::MW_BIND_ERR, syndrome }
}

impl Device {
    /// BIND_MW: the window becomes a part of a region, with a new variant of its key.
    pub(super) fn bind_window(&mut self, q: usize, bind: &WqeBind, new_rkey: u32) -> Result<(), LocalError> {
        let (pd, qpn) = (self.qps[q].pd, self.qps[q].qpn);
        let index = (bind.mw_rkey() >> 8) as usize;
        let Some(w) = self.keys.get(index).copied() else { return Err(bind_error(Syndrome::RKEY_UNKNOWN)) };
        let known = key_kind::is_window(w.kind) && w.key == bind.mw_rkey();
        if !known || new_rkey >> 8 != bind.mw_rkey() >> 8 {
            return Err(bind_error(Syndrome::RKEY_UNKNOWN));
        }
        let type1 = w.kind == key_kind::MW1;
        // One of type 2 is invalidated before it is bound again; another bind of one of type 1 invalidates it.
        let held = !type1 && w.valid.get() && (bind.length() != 0 || w.bound != qpn);
        if w.pd != pd || held || (type1 && bind.access().contains(Access::ZERO_BASED)) {
            return Err(bind_error(Syndrome::BAD_BIND));
        }
        if bind.length() == 0 {
            // To no bytes is to nothing: no region is needed for it, nor held.
            self.unbind(index);
            self.keys[index].key = new_rkey;
            return Ok(());
        }
        let region = (bind.mr_lkey() >> 8) as usize;
        let Some(r) = self.keys.get(region).copied() else { return Err(bind_error(Syndrome::LKEY_UNKNOWN)) };
        if r.kind != key_kind::MR || r.key != bind.mr_lkey() || !r.valid.get() {
            return Err(bind_error(Syndrome::LKEY_UNKNOWN));
        }
        if r.pd != pd {
            return Err(bind_error(Syndrome::LKEY_PD));
        }
        let rights = bind.access();
        let writes = rights.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
        if r.access & Access::MW_BIND.0 == 0 || (writes && r.access & Access::LOCAL_WRITE.0 == 0) {
            return Err(bind_error(Syndrome::LKEY_ACCESS));
        }
        let offset = bind.addr().wrapping_sub(r.va);
        if offset > r.length || r.length - offset < bind.length() {
            return Err(bind_error(Syndrome::LKEY_BOUNDS));
        }
        let zero_based = rights.contains(Access::ZERO_BASED);
        self.unbind(index);
        let w = &mut self.keys[index];
        w.key = new_rkey;
        w.access = rights.0;
        w.va = if zero_based { 0 } else { bind.addr() };
        w.length = bind.length();
        w.window_offset = offset;
        w.parent = region as u32;
        w.bound = qpn;
        w.valid = true.into();
        self.keys[region].bound += 1;
        Ok(())
    }

    /// LOCAL_INV.
    pub(super) fn invalidate_local(&mut self, q: usize, key: u32) -> Result<(), LocalError> {
        self.invalidate(q, key).map_err(bind_error)
    }

    /// What LOCAL_INV, or the peer's SEND_WITH_INV, asks for.
    pub(super) fn invalidate(&mut self, q: usize, key: u32) -> Result<(), Syndrome> {
        let (pd, qpn) = (self.qps[q].pd, self.qps[q].qpn);
        let index = (key >> 8) as usize;
        let Some(w) = self.keys.get(index) else { return Err(Syndrome::RKEY_UNKNOWN) };
        if w.kind != key_kind::MW2 || w.key != key || !w.valid.get() {
            return Err(Syndrome::KEY_NOT_INVALIDATABLE);
        }
        if w.pd != pd {
            return Err(Syndrome::RKEY_PD);
        }
        if w.bound != qpn {
            return Err(Syndrome::RKEY_QP);
        }
        self.unbind(index);
        Ok(())
    }

    /// Takes a window off its region.
    pub(super) fn unbind(&mut self, index: usize) {
        let w = &mut self.keys[index];
        if w.valid.get() {
            w.valid = false.into();
            w.length = 0;
            let parent = w.parent as usize;
            self.keys[parent].bound -= 1;
        }
    }
}
