//! Copying an instruction into another function, a primal one into a derived one.
//!
//! **Question.** An instruction names entities of its function: signatures, functions, slots,
//! constants, flags. What are they called in another one?
//!
//! **Answer.** Each is imported on first use, so that a derived function declares what it uses and
//! nothing else.
//!
//! **Cost.** A look-up for each entity of each instruction.

use crate::map::HashMap;

use cranelift_codegen::ir;
use cranelift_codegen::ir::instructions::InstructionMapper;
use cranelift_codegen::packed_option::PackedOption;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;

use crate::names::Names;
use crate::program::symbol_of;

use super::named::NameMap;

/// Entities of the primal that a derived function has imported.
#[derive(Default)]
pub(super) struct ImportMap {
    funcs: HashMap<ir::FuncRef, ir::FuncRef>,
    sigs: HashMap<ir::SigRef, ir::SigRef>,
    slots: HashMap<ir::StackSlot, ir::StackSlot>,
    globals: HashMap<ir::GlobalValue, ir::GlobalValue>,
    immediates: HashMap<ir::Immediate, ir::Immediate>,
}

/// Rewrites the entities of one instruction of `src` for `dst`.
pub(super) struct Copier<'a> {
    /// The primal.
    pub src: &'a ir::Function,
    /// The derived function.
    pub dst: &'a mut ir::Function,
    /// What primal values are called there.
    pub values: &'a NameMap,
    /// What has been imported so far.
    pub imported: &'a mut ImportMap,
    /// Spelling of symbols.
    pub names: &'a mut Names,
    /// What stands for a value that is not there, if operands are going to be replaced.
    pub instead: Option<ir::Value>,
    /// What blocks are called there, if terminators are copied as well.
    pub blocks: Option<&'a SecondaryMap<ir::Block, PackedOption<ir::Block>>>,
}

impl Copier<'_> {
    fn external_name(&mut self, name: &ir::ExternalName) -> ir::ExternalName {
        match name {
            ir::ExternalName::LibCall(_) | ir::ExternalName::KnownSymbol(_) => name.clone(),
            ir::ExternalName::User(r) if self.names.verbatim => {
                let user = self.src.params.user_named_funcs()[*r].clone();
                ir::ExternalName::user(self.dst.declare_imported_user_function(user))
            }
            ir::ExternalName::TestCase(_) if self.names.verbatim => name.clone(),
            _ => ir::ExternalName::testcase(self.names.spell(&symbol_of(self.src, name))),
        }
    }
}

impl InstructionMapper for Copier<'_> {
    fn map_value(&mut self, value: ir::Value) -> ir::Value {
        let known = self.values.primal(value).or(self.instead);
        known.unwrap_or_else(|| panic!("{value} is not available here"))
    }

    fn map_value_list(&mut self, list: ir::ValueList) -> ir::ValueList {
        let vals: SmallVec<[ir::Value; 4]> =
            list.as_slice(&self.src.dfg.value_lists).iter().map(|&v| self.map_value(v)).collect();
        ir::ValueList::from_slice(&vals, &mut self.dst.dfg.value_lists)
    }

    fn map_global_value(&mut self, gv: ir::GlobalValue) -> ir::GlobalValue {
        if let Some(&g) = self.imported.globals.get(&gv) {
            return g;
        }
        let data = match self.src.global_values[gv].clone() {
            ir::GlobalValueData::Symbol { name, offset, colocated, tls } => {
                ir::GlobalValueData::Symbol { name: self.external_name(&name), offset, colocated, tls }
            }
            ir::GlobalValueData::IAddImm { base, offset, global_type } => {
                ir::GlobalValueData::IAddImm { base: self.map_global_value(base), offset, global_type }
            }
            ir::GlobalValueData::Load { base, offset, global_type, flags } => ir::GlobalValueData::Load {
                base: self.map_global_value(base),
                offset,
                global_type,
                flags: self.map_mem_flags(flags),
            },
            other @ (ir::GlobalValueData::VMContext | ir::GlobalValueData::DynScaleTargetConst { .. }) => other,
        };
        let g = self.dst.create_global_value(data);
        self.imported.globals.insert(gv, g);
        g
    }

    fn map_jump_table(&mut self, table: ir::JumpTable) -> ir::JumpTable {
        let table = &self.src.dfg.jump_tables[table];
        let default = self.map_block_call(table.default_block());
        let entries: Vec<_> = table.as_slice().iter().map(|&c| self.map_block_call(c)).collect();
        self.dst.dfg.jump_tables.push(ir::JumpTableData::new(default, &entries))
    }

    fn map_exception_table(&mut self, _: ir::ExceptionTable) -> ir::ExceptionTable {
        unreachable!("exceptions are refused before")
    }

    fn map_block_call(&mut self, call: ir::BlockCall) -> ir::BlockCall {
        let pool = &self.src.dfg.value_lists;
        let block = self.map_block(call.block(pool));
        let value = |a: ir::BlockArg| a.as_value().expect("exception arguments are refused before");
        let args: SmallVec<[ir::BlockArg; 4]> =
            call.args(pool).map(|a| ir::BlockArg::Value(self.map_value(value(a)))).collect();
        self.dst.dfg.block_call(block, &args)
    }

    fn map_block(&mut self, block: ir::Block) -> ir::Block {
        self.blocks.and_then(|blocks| blocks[block].expand()).expect("terminators are copied with all blocks")
    }

    fn map_func_ref(&mut self, func: ir::FuncRef) -> ir::FuncRef {
        if let Some(&f) = self.imported.funcs.get(&func) {
            return f;
        }
        let e = self.src.dfg.ext_funcs[func].clone();
        let data = ir::ExtFuncData {
            name: self.external_name(&e.name),
            signature: self.map_sig_ref(e.signature),
            colocated: e.colocated,
            patchable: e.patchable,
        };
        let f = self.dst.import_function(data);
        self.imported.funcs.insert(func, f);
        f
    }

    fn map_sig_ref(&mut self, sig: ir::SigRef) -> ir::SigRef {
        if let Some(&s) = self.imported.sigs.get(&sig) {
            return s;
        }
        let s = self.dst.import_signature(self.src.dfg.signatures[sig].clone());
        self.imported.sigs.insert(sig, s);
        s
    }

    fn map_stack_slot(&mut self, slot: ir::StackSlot) -> ir::StackSlot {
        if let Some(&s) = self.imported.slots.get(&slot) {
            return s;
        }
        let s = self.dst.create_sized_stack_slot(self.src.sized_stack_slots[slot].clone());
        self.imported.slots.insert(slot, s);
        s
    }

    fn map_dynamic_stack_slot(&mut self, _: ir::DynamicStackSlot) -> ir::DynamicStackSlot {
        unreachable!("dynamic vectors are refused before")
    }

    fn map_constant(&mut self, constant: ir::Constant) -> ir::Constant {
        self.dst.dfg.constants.insert(self.src.dfg.constants.get(constant).clone())
    }

    fn map_immediate(&mut self, imm: ir::Immediate) -> ir::Immediate {
        if let Some(&i) = self.imported.immediates.get(&imm) {
            return i;
        }
        let i = self.dst.dfg.immediates.push(self.src.dfg.immediates[imm].clone());
        self.imported.immediates.insert(imm, i);
        i
    }

    fn map_mem_flags(&mut self, flags: ir::MemFlags) -> ir::MemFlags {
        let mut data = self.src.dfg.mem_flags[flags];
        if let Some(r) = data.alias_region() {
            let region = self.src.dfg.alias_regions[r].clone();
            data.set_alias_region(Some(self.dst.dfg.alias_regions.insert(region)));
        }
        // A table of 65535 different flag sets is full only if the primal's was, and then it was
        // full of these.
        self.dst.dfg.mem_flags.insert(data).unwrap_or_else(|_| {
            self.dst.dfg.mem_flags.insert(ir::MemFlagsData::new()).expect("the empty flag set is always there")
        })
    }
}
