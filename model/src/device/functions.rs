//! Functions: attach (a device is opened), reset, detach (closed, or its process died).

use fpga_regs::QpType;

use super::regions::settle;
use super::tables::{key_kind, Function, Key, MAX_FUNCTIONS};
use super::Device;
use crate::env::Env;
use crate::plain::zeroed;

impl Device {
    /// Gives a function to a DMA domain. `None`: all are taken.
    pub fn attach(&mut self, domain: u16) -> Option<u16> {
        let functions = &self.functions;
        let f = self.tables.function.take(0..MAX_FUNCTIONS, |i| functions[i].used.get())?;
        self.functions[f] = Function { used: true.into(), domain, ..zeroed() };
        Some(f as u16)
    }

    /// Frees a function and all that it owns.
    pub fn detach(&mut self, f: u16, env: &mut impl Env) {
        if self.functions[f as usize].used.get() {
            self.reset_function(f, env);
            self.functions[f as usize] = zeroed();
        }
    }

    /// Detaches every function of a domain.
    pub fn detach_domain(&mut self, domain: u16, env: &mut impl Env) {
        for f in self.tables.function.range() {
            if self.functions[f].used.get() && self.functions[f].domain == domain {
                self.detach(f as u16, env);
            }
        }
    }

    /// Destroys all objects of a function and returns its registers to their initial values.
    pub(super) fn reset_function(&mut self, f: u16, env: &mut impl Env) {
        for q in self.tables.qp.range() {
            let qp = &self.qps[q];
            if qp.used.get() && qp.function == f && qp.qp_type != QpType::XRC_RECV {
                self.free_qp(q, env);
            }
        }
        self.free_tables(f);
        self.rules.vlans.clear(f);
        for n in self.tables.srq.range() {
            if self.srqs[n].used.get() && self.srqs[n].function == f {
                self.free_srq(n, env);
            }
        }
        // What it held of others' QPs stays theirs.
        self.leave_domains(f, env);
        for c in &mut self.cqs[self.tables.cq.range()] {
            if c.used.get() && c.function == f {
                c.used = false.into();
            }
        }
        // Windows before regions: a bound window holds its region.
        for windows in [true, false] {
            for k in self.tables.key.range() {
                let Key { kind, function, .. } = self.keys[k];
                let of = kind != key_kind::FREE && key_kind::is_window(kind) == windows;
                if of && function == f {
                    if windows {
                        self.unbind(k);
                    } else {
                        settle(&self.keys[k], env);
                    }
                    self.keys[k].kind = key_kind::FREE;
                    self.keys[k].valid = false.into();
                }
            }
        }
        for part in &mut self.parts {
            if part.used.get() && part.function == f {
                part.used = false.into();
            }
        }
        for pd in &mut self.pds[self.tables.pd.range()] {
            if pd.used.get() && pd.function == f {
                pd.used = false.into();
            }
        }
        let Function { domain, remote, .. } = self.functions[f as usize];
        self.functions[f as usize] = Function { used: true.into(), domain, remote, ..zeroed() };
    }
}
