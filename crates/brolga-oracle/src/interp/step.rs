//! Instruction dispatch of the interpreter: one instruction, by the table of all opcodes, and
//! control flow.
//!
//! **Question.** What does the next instruction do, and where does control go?
//!
//! **Answer.** [`Machine::step`] is one match over opcodes, which hands values on to arithmetic,
//! moves and memory, and returns a [`Flow`]. Addresses of functions, data objects and slots are
//! made here, and callees are found: of a call through a pointer by its address. The match has no
//! wildcard, so an opcode that a new Cranelift adds does not compile until it is considered here.
//!
//! **Errors.** Traps; a symbol that is not known; a pointer that leads to no function, or to one
//! with another signature; and opcodes that are not supported, such as dynamic vectors and stack
//! switches.
//!
//! **Cost.** One jump table, and what the operation costs.

use brolga_ir::FuncKey;
use cranelift_codegen::ir::{self, InstructionData, Opcode, TrapCode, types};

use super::domain::Domain;
use super::int;
use super::machine::{Flow, Machine};
use super::value::TrackedVal;
use crate::error::OracleError;

impl<D: Domain> Machine<'_, D> {
    /// Execute `inst`, which is the next instruction of the running frame.
    pub(super) unsafe fn step(&mut self, body: &ir::Function, inst: ir::Inst) -> Result<Flow, OracleError> {
        use Opcode::*;
        let dfg = &body.dfg;
        let data = &dfg.insts[inst];
        let args = dfg.inst_args(inst);
        let ty = dfg.inst_results(inst).first().map_or(types::INVALID, |&r| dfg.value_type(r));
        let arg_ty = args.first().map_or(types::INVALID, |&a| dfg.value_type(a));
        if ty.is_dynamic_vector() || arg_ty.is_dynamic_vector() {
            return Err(self.unsupported("dynamic vectors"));
        }
        Ok(match data.opcode() {
            // Control flow.
            Jump | Brif | BrTable => self.branch(dfg, data),
            Return => Flow::Return(self.all(args)),
            Call | TryCall | ReturnCall => {
                let (InstructionData::Call { func_ref, .. } | InstructionData::TryCall { func_ref, .. }) = *data else {
                    unreachable!("format of a direct call")
                };
                let func = self.callee(body, func_ref)?;
                self.transfer(data.opcode(), func, self.all(args))
            }
            CallIndirect | TryCallIndirect | ReturnCallIndirect => {
                let sig = match *data {
                    InstructionData::CallIndirect { sig_ref, .. } => sig_ref,
                    InstructionData::TryCallIndirect { exception, .. } => dfg.exception_tables[exception].signature(),
                    _ => unreachable!("format of an indirect call"),
                };
                let func = self.indirect_callee(self.bits(args[0]) as u64, &dfg.signatures[sig])?;
                self.transfer(data.opcode(), func, self.all(&args[1..]))
            }
            Trap => {
                let InstructionData::Trap { code, .. } = *data else { unreachable!("format of trap") };
                return Err(self.trap(code));
            }
            Trapz | Trapnz => {
                let InstructionData::CondTrap { code, .. } = *data else { unreachable!("format of trapz") };
                if (self.bits(args[0]) == 0) == (data.opcode() == Trapz) {
                    return Err(self.trap(code));
                }
                Flow::Next
            }
            Debugtrap => return Err(self.unsupported("debugtrap")),
            Nop | Fence | SequencePoint => Flow::Next,

            // Addresses.
            FuncAddr => {
                let InstructionData::FuncAddr { func_ref, .. } = *data else { unreachable!("format of func_addr") };
                let func = self.callee(body, func_ref)?;
                TrackedVal::clean(self.linkage.function(func).into()).into()
            }
            SymbolValue | TlsValue => {
                let InstructionData::UnaryGlobalValue { global_value, .. } = *data else {
                    unreachable!("format of symbol_value")
                };
                TrackedVal::clean(self.symbol(body, global_value)?.into()).into()
            }
            StackAddr => {
                let InstructionData::StackAddr { stack_slot, offset, .. } = *data else {
                    unreachable!("format of stack_addr")
                };
                let a = self.slot_address(stack_slot) as u64;
                TrackedVal::clean(a.wrapping_add(i64::from(i32::from(offset)) as u64).into()).into()
            }
            GetPinnedReg => self.pinned_reg.clone().into(),
            SetPinnedReg => {
                self.pinned_reg = self.get(args[0]).clone();
                Flow::Next
            }
            GetFramePointer | GetStackPointer => TrackedVal::clean(self.frame_address() as u128).into(),
            DynamicStackAddr | ExtractVector => return Err(self.unsupported("dynamic vectors")),
            GetReturnAddress | GetExceptionHandlerAddress | StackSwitch => {
                return Err(self.unsupported(data.opcode().to_string()));
            }

            // Constants.
            Iconst => {
                let InstructionData::UnaryImm { imm, .. } = *data else { unreachable!("format of iconst") };
                TrackedVal::clean(i128::from(imm.bits()) as u128 & super::value::ones(ty.bits())).into()
            }
            F16const => {
                let InstructionData::UnaryIeee16 { imm, .. } = *data else { unreachable!("format of f16const") };
                TrackedVal::clean(imm.bits().into()).into()
            }
            F32const => {
                let InstructionData::UnaryIeee32 { imm, .. } = *data else { unreachable!("format of f32const") };
                TrackedVal::clean(imm.bits().into()).into()
            }
            F64const => {
                let InstructionData::UnaryIeee64 { imm, .. } = *data else { unreachable!("format of f64const") };
                TrackedVal::clean(imm.bits().into()).into()
            }
            F128const | Vconst => {
                let InstructionData::UnaryConst { constant_handle, .. } = *data else {
                    unreachable!("format of vconst")
                };
                let mut bytes = [0; 16];
                let c = dfg.constants.get(constant_handle).as_slice();
                bytes[..c.len()].copy_from_slice(c);
                TrackedVal::clean(u128::from_le_bytes(bytes)).into()
            }

            // Memory. SAFETY: promised by the caller of `Machine::call`.
            Load | Store | Uload8 | Sload8 | Istore8 | Uload16 | Sload16 | Istore16 | Uload32 | Sload32 | Istore32
            | Uload8x8 | Sload8x8 | Uload16x4 | Sload16x4 | Uload32x2 | Sload32x2 | AtomicRmw | AtomicCas
            | AtomicLoad | AtomicStore => unsafe { self.memory(dfg, data, ty)? },

            // Floats.
            Fadd | Fsub => self.sum(data.opcode(), ty, args)?.into(),
            Fma => self.fused_sum(ty, args)?.into(),
            Fmul | Fdiv | Sqrt | Fneg | Fabs | Fcopysign | Fmin | Fmax | Ceil | Floor | Trunc | Nearest => {
                self.float_op(data.opcode(), ty, args)?.into()
            }
            Fpromote | Fdemote | Fvdemote | FvpromoteLow => self.resize_float(arg_ty, ty, args[0])?.into(),
            FcvtFromSint | FcvtFromUint => {
                self.int_to_float(arg_ty, ty, args[0], data.opcode() == FcvtFromSint)?.into()
            }
            FcvtToSint | FcvtToUint | FcvtToSintSat | FcvtToUintSat | X86Cvtt2dq => {
                self.float_to_int(data.opcode(), arg_ty, ty, args[0])?.into()
            }
            Fcmp | Icmp => self.compare(data, arg_ty, ty)?.into(),

            // Integer arithmetic.
            Ineg | Iabs | Clz | Cls | Ctz | Popcnt => self.int_unary(data.opcode(), ty, args[0])?.into(),
            Smin | Smax | Umin | Umax if matches!(ty.lane_bits(), 32 | 64) => {
                self.extreme(data.opcode(), ty, args)?.into()
            }
            Iadd | Isub | Imul | Umulhi | Smulhi | Smin | Smax | Umin | Umax | AvgRound | UaddSat | SaddSat
            | UsubSat | SsubSat | SqmulRoundSat | X86Pmulhrsw | Udiv | Urem | Sdiv | Srem => {
                self.int_binary(data.opcode(), ty, args[0], args[1])?.into()
            }
            UaddOverflow | SaddOverflow | UsubOverflow | SsubOverflow | UmulOverflow | SmulOverflow
            | SaddOverflowCin | UaddOverflowCin | SsubOverflowBin | UsubOverflowBin => {
                let (sum, overflow) = self.overflowing(data.opcode(), ty, args)?;
                [sum, TrackedVal::clean(overflow.into())].into()
            }
            UaddOverflowTrap => {
                let InstructionData::IntAddTrap { code, .. } = *data else {
                    unreachable!("format of uadd_overflow_trap")
                };
                let (sum, overflow) = self.overflowing(UaddOverflowTrap, ty, args)?;
                if overflow {
                    return Err(self.trap(code));
                }
                sum.into()
            }
            Snarrow | Unarrow | Uunarrow | SwidenLow | SwidenHigh | UwidenLow | UwidenHigh | IaddPairwise
            | X86Pmaddubsw => self.reshape_lanes(data.opcode(), arg_ty, ty, args)?.into(),
            Bmask => TrackedVal::clean(if self.bits(args[0]) == 0 { 0 } else { super::value::ones(ty.bits()) }).into(),
            VanyTrue | VallTrue | VhighBits => self.lane_summary(data.opcode(), arg_ty, args[0]).into(),

            // Bits that move.
            Band | Bor | Bxor | Bnot | Bitselect => {
                let mut v = self.bitwise(data.opcode(), ty, args)?;
                if let Some(prov) = self.guarded(body, inst, ty, &v.prov) {
                    v.prov = prov;
                }
                v.into()
            }
            Ishl | Ushr | Sshr | Rotl | Rotr => self.shift(data.opcode(), ty, args[0], args[1])?.into(),
            Bitrev | Bswap => self.reverse(data.opcode(), ty, args[0])?.into(),
            Uextend | Sextend | Ireduce => self.resize_int(data.opcode(), arg_ty, ty, args[0]).into(),
            Isplit => self.split(arg_ty, args[0]).into(),
            Iconcat => self.concat(arg_ty, args[0], args[1]).into(),
            Bitcast => {
                let v = self.get(args[0]).clone();
                self.used_as(v, ty).into()
            }
            Select | SelectSpectreGuard => {
                let taken = if self.bits(args[0]) != 0 { args[1] } else { args[2] };
                let mut v = self.get(taken).clone();
                if let Some(prov) = self.guarded(body, inst, ty, &v.prov) {
                    v.prov = prov;
                }
                v.into()
            }
            Splat | ScalarToVector => self.splat(data.opcode(), ty, args[0]).into(),
            Insertlane | Extractlane => self.lane_access(data, arg_ty).into(),
            Shuffle | Swizzle | X86Pshufb => self.permute(dfg, data).into(),
            Blendv => self.blend(ty, args).into(),
        })
    }

    /// The values of `vs`.
    fn all(&self, vs: &[ir::Value]) -> Vec<TrackedVal> {
        vs.iter().map(|&v| self.get(v).clone()).collect()
    }

    /// Where a branch goes.
    fn branch(&self, dfg: &ir::DataFlowGraph, data: &InstructionData) -> Flow {
        Flow::Jump(match *data {
            InstructionData::Jump { destination, .. } => destination,
            InstructionData::Brif { arg, blocks, .. } => blocks[usize::from(self.bits(arg) == 0)],
            InstructionData::BranchTable { arg, table, .. } => {
                let table = &dfg.jump_tables[table];
                let index = self.bits(arg);
                let entry = usize::try_from(index).ok().and_then(|i| table.as_slice().get(i));
                entry.copied().unwrap_or_else(|| table.default_block())
            }
            _ => unreachable!("format of a branch"),
        })
    }

    /// A call of the kind that `opcode` says.
    fn transfer(&self, opcode: Opcode, func: FuncKey, args: Vec<TrackedVal>) -> Flow {
        match opcode {
            Opcode::ReturnCall | Opcode::ReturnCallIndirect => Flow::TailCall(func, args),
            _ => Flow::Call(func, args),
        }
    }

    /// The function that a body calls `func`.
    fn callee(&self, body: &ir::Function, func: ir::FuncRef) -> Result<FuncKey, OracleError> {
        self.program().callee(body, func).ok_or_else(|| OracleError::UnknownSymbol {
            symbol: brolga_ir::program::symbol_of(body, &body.dfg.ext_funcs[func].name),
            at: self.place(),
        })
    }

    /// The function at an address, if it has this signature.
    fn indirect_callee(&self, address: u64, sig: &ir::Signature) -> Result<FuncKey, OracleError> {
        let bad = |problem| OracleError::BadCallee { address, problem, at: self.place() };
        let func = self.linkage.function_at(address).ok_or_else(|| bad("which is no function"))?;
        let known = &self.program().funcs[func].signature;
        let types = |ps: &[ir::AbiParam]| ps.iter().map(|p| p.value_type).collect::<Vec<_>>();
        if types(&known.params) != types(&sig.params) || types(&known.returns) != types(&sig.returns) {
            return Err(bad("which has another signature"));
        }
        Ok(func)
    }

    /// The address that `symbol_value` gives for a global value.
    fn symbol(&self, body: &ir::Function, gv: ir::GlobalValue) -> Result<u64, OracleError> {
        let ir::GlobalValueData::Symbol { name, offset, .. } = &body.global_values[gv] else {
            return Err(self.unsupported("symbol_value of a global value that is no symbol"));
        };
        let symbol = brolga_ir::program::symbol_of(body, name);
        let base = if let Some(d) = self.program().data_object(&symbol) {
            self.linkage.data(d) as u64
        } else if let Some(f) = self.program().func(&symbol) {
            self.linkage.function(f)
        } else {
            return Err(OracleError::UnknownSymbol { symbol, at: self.place() });
        };
        Ok(base.wrapping_add(offset.bits() as u64))
    }

    /// Turn the fault of an integer operation into a trap.
    pub(super) fn int_fault(&self, fault: int::IntFault) -> OracleError {
        match fault {
            int::IntFault::DivisionByZero => self.trap(TrapCode::INTEGER_DIVISION_BY_ZERO),
            int::IntFault::Overflow => self.trap(TrapCode::INTEGER_OVERFLOW),
            int::IntFault::Unknown => self.unsupported("integer operation"),
        }
    }
}
