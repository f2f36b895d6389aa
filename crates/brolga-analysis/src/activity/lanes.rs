//! Lane widths of integers that carry float bits: from where they become or were floats, along moves, both ways.

use brolga_ir::inst::Shape;
use cranelift_codegen::ir::{self, Opcode};

use super::Cx;
use crate::cell::{access_offset, cell_of};
use crate::cfg::edge_args;
use crate::contents::{Kinds, moves_half};
use crate::modes::{ParamMode, ResultMode};
use crate::pointers::access_address;

impl Cx<'_> {
    /// Lane widths of integers that carry float bits: from where they become or were floats, along moves, both ways.
    pub(super) fn lanes(&mut self) {
        let (func, cfg) = (self.i.func, self.i.cfg);
        let mut pairs: Vec<(ir::Value, ir::Value)> = Vec::new();
        let mut halves: Vec<(ir::Value, ir::Value)> = Vec::new();
        for (i, &v) in func.dfg.block_params(cfg.blocks[0]).iter().enumerate() {
            if let ParamMode::Bits(s) = self.i.params[i] {
                self.a.lane[v] = s.lane_bytes();
            }
        }
        for &b in &cfg.blocks {
            for &s in &cfg.succs[b] {
                pairs.extend(edge_args(func, b, s).into_iter().zip(func.dfg.block_params(s).iter().copied()));
            }
            for inst in func.layout.block_insts(b) {
                let args = func.dfg.inst_args(inst);
                let results = func.dfg.inst_results(inst);
                match func.dfg.insts[inst].opcode() {
                    Opcode::Bitcast => {
                        let (x, r) = (args[0], results[0]);
                        for (f, i) in [(x, r), (r, x)] {
                            if let Some(s) = Shape::of_float(self.ty(f))
                                && !self.is_float(i)
                            {
                                self.a.lane[i] = s.lane_bytes();
                            }
                        }
                        pairs.push((x, r));
                    }
                    Opcode::Select | Opcode::SelectSpectreGuard | Opcode::Bitselect | Opcode::Blendv => {
                        pairs.extend(args[1..].iter().map(|&a| (a, results[0])));
                    }
                    Opcode::Band
                    | Opcode::Bor
                    | Opcode::Bxor
                    | Opcode::Bnot
                    | Opcode::Shuffle
                    | Opcode::Swizzle
                    | Opcode::Splat
                    | Opcode::Insertlane
                    | Opcode::Extractlane
                    | Opcode::ScalarToVector
                    | Opcode::Isplit
                    | Opcode::Iconcat
                    | Opcode::X86Pshufb => {
                        pairs.extend(args.iter().flat_map(|&a| results.iter().map(move |&r| (a, r))));
                    }
                    Opcode::Uextend | Opcode::Ireduce | Opcode::Ishl | Opcode::Ushr if moves_half(func, inst) => {
                        halves.push((args[0], results[0]));
                    }
                    Opcode::Load | Opcode::Store | Opcode::AtomicLoad | Opcode::AtomicStore => {
                        let addr = access_address(func, inst).expect("an access has an address");
                        let v = results.first().copied().unwrap_or(args[0]);
                        if !self.is_float(v) && self.i.pointers.root(v).is_none() {
                            let cell = cell_of(func, addr, access_offset(func, inst));
                            let over = self.i.contents.float_overlaps(cell, self.ty(v).bytes());
                            let k = if over == Kinds::NONE { self.kinds_at(inst, addr) } else { over };
                            if let Some(s) = k.shape(self.ty(v).bytes())
                                && self.a.lane[v] == 0
                            {
                                self.a.lane[v] = s.lane_bytes();
                            }
                        }
                    }
                    Opcode::Return => {
                        for (i, &v) in args.iter().enumerate() {
                            if let ResultMode::Bits(s) = self.i.results[i] {
                                self.a.lane[v] = s.lane_bytes();
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        pairs.retain(|&(x, y)| !self.is_float(x) && !self.is_float(y));
        let mut changed = true;
        while changed {
            changed = false;
            let both = pairs.iter().map(|&p| (p, false)).chain(halves.iter().map(|&p| (p, true)));
            for ((x, y), half) in both {
                // A half of a word can be one single, never part of a double.
                if half && self.a.lane[x].max(self.a.lane[y]) > 4 {
                    continue;
                }
                let (lx, ly) = (self.a.lane[x], self.a.lane[y]);
                if lx == 0 && ly != 0 && self.ty(x).bytes() >= ly {
                    self.a.lane[x] = ly;
                    changed = true;
                } else if ly == 0 && lx != 0 && self.ty(y).bytes() >= lx {
                    self.a.lane[y] = lx;
                    changed = true;
                }
            }
        }
    }
}
