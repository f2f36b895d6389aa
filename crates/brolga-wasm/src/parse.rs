//! A module's sections as plain tables.
//!
//! **Question.** May what follows rely on what it reads?
//!
//! **Answer.** Everything is validated first, against the features that the translator knows, so
//! that what comes after may rely on a module being well typed. Valid modules that use what we lack
//! are refused here as far as types and sections go; operators are the translator's business.
//!
//! **Cost.** A pass that validates, one over the sections, and two over the bodies of functions.

use std::collections::{HashMap, HashSet};

use wasmparser::{
    CompositeInnerType, ConstExpr, DataKind, ElementItems, ElementKind, ElementSectionReader, ExternalKind, FuncType,
    FunctionBody, GlobalType, HeapType, Imports, KnownCustom, MemoryType, Name, Operator, Parser, Payload, RefType,
    TableInit, TableType, TypeRef, TypeSectionReader, ValType, Validator, WasmFeatures,
};

use crate::error::Error;

/// An imported thing's two names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ImportName {
    /// The module that it is imported from.
    pub module: String,
    /// Its name there.
    pub name: String,
}

/// A function of the index space.
pub(crate) struct Func<'a> {
    /// Index of its type.
    pub ty: u32,
    /// Its names, if it is imported.
    pub import: Option<ImportName>,
    /// Its body, if it is not.
    pub body: Option<FunctionBody<'a>>,
}

/// A table.
pub(crate) struct TableDecl {
    /// Its limits and what it holds.
    pub ty: TableType,
    /// What its entries are at first; null without one.
    pub init: Option<Const>,
    /// Its names, if it is imported.
    pub import: Option<ImportName>,
}

/// A memory. One that is imported is made like any other.
pub(crate) struct MemoryDecl {
    /// Its limits.
    pub ty: MemoryType,
    /// Its names, if it is imported.
    pub import: Option<ImportName>,
}

/// A global.
pub(crate) struct GlobalDecl {
    /// Its type.
    pub ty: GlobalType,
    /// Its initial value, unless it is imported.
    pub init: Option<Const>,
    /// Its names, if it is imported.
    pub import: Option<ImportName>,
}

/// When a segment is written.
pub(crate) enum SegmentMode {
    /// Into table or memory `.0` at `.1`, when the module is instantiated.
    Active(u32, Const),
    /// When the program says so.
    Passive,
    /// Never; it only says which functions have references.
    Declared,
}

/// An element segment.
pub(crate) struct ElemSegment {
    /// When it is written.
    pub mode: SegmentMode,
    /// Its references.
    pub items: Vec<Const>,
}

/// A data segment.
pub(crate) struct Data<'a> {
    /// When it is written.
    pub mode: SegmentMode,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// A constant expression, as a program for a stack machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Const(pub Vec<ConstOp>);

/// An operation of a constant expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ConstOp {
    /// The bits of a number, zero-extended.
    Bits(u128),
    /// The value of a global.
    Global(u32),
    /// A reference to a function.
    Func(u32),
    /// Addition, of 32 bits or of 64.
    Add(bool),
    /// Subtraction.
    Sub(bool),
    /// Multiplication.
    Mul(bool),
}

impl Const {
    /// The bits, if the expression is a literal.
    pub(crate) fn literal(&self) -> Option<u128> {
        match self.0[..] {
            [ConstOp::Bits(bits)] => Some(bits),
            _ => None,
        }
    }

    /// Evaluate with the values of globals and the numbers of functions.
    pub(crate) fn eval(&self, global: &dyn Fn(u32) -> u128, func: &dyn Fn(u32) -> u32) -> u128 {
        let mut stack: Vec<u128> = Vec::new();
        for op in &self.0 {
            let value = match *op {
                ConstOp::Bits(bits) => bits,
                ConstOp::Global(g) => global(g),
                ConstOp::Func(f) => func(f).into(),
                ConstOp::Add(wide) | ConstOp::Sub(wide) | ConstOp::Mul(wide) => {
                    let (y, x) = (stack.pop().unwrap_or(0) as u64, stack.pop().unwrap_or(0) as u64);
                    let z = match op {
                        ConstOp::Add(_) => x.wrapping_add(y),
                        ConstOp::Sub(_) => x.wrapping_sub(y),
                        _ => x.wrapping_mul(y),
                    };
                    u128::from(if wide { z } else { z & 0xffff_ffff })
                }
            };
            stack.push(value);
        }
        stack.pop().unwrap_or(0)
    }
}

/// An exported thing: its kind and index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ExternalKind,
    /// Which one.
    pub index: u32,
}

/// What code changes, by index.
#[derive(Default)]
pub(crate) struct Mutations {
    /// Memories that grow.
    pub memories: HashSet<u32>,
    /// Tables whose entries or whose size change.
    pub tables: HashSet<u32>,
}

impl Mutations {
    fn read(&mut self, body: &FunctionBody<'_>) -> Result<(), Error> {
        let mut ops = body.get_operators_reader()?;
        while !ops.eof() {
            match ops.read()? {
                Operator::MemoryGrow { mem } => self.memories.insert(mem),
                Operator::TableSet { table }
                | Operator::TableGrow { table }
                | Operator::TableFill { table }
                | Operator::TableInit { table, .. }
                | Operator::TableCopy { dst_table: table, .. } => self.tables.insert(table),
                _ => false,
            };
        }
        Ok(())
    }
}

/// What a function's body is made of, as far as it tells what the function may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct FuncUses {
    /// Whether it takes bits of floats for integers, or the reverse.
    pub bits: bool,
    /// Functions that it calls.
    pub calls: HashSet<u32>,
    /// Globals that it reads.
    pub globals: HashSet<u32>,
    /// Globals that it sets.
    pub sets: HashSet<u32>,
    /// Whether it calls through a table.
    pub indirect: bool,
    /// Whether it does what no mathematical function does: calls through tables, growth of memory,
    /// vectors of bytes copied.
    pub other: bool,
}

impl FuncUses {
    fn read(body: &FunctionBody<'_>) -> Result<Self, Error> {
        let (mut uses, mut ops) = (Self::default(), body.get_operators_reader()?);
        let (mut doubles, mut words): (HashSet<u64>, HashSet<u64>) = Default::default();
        while !ops.eof() {
            match ops.read()? {
                Operator::F64Load { memarg } | Operator::F64Store { memarg } => {
                    doubles.insert(memarg.offset);
                }
                Operator::I32Load { memarg }
                | Operator::I32Store { memarg }
                | Operator::I64Load { memarg }
                | Operator::I64Store { memarg } => {
                    words.insert(memarg.offset);
                }
                Operator::I32ReinterpretF32
                | Operator::I64ReinterpretF64
                | Operator::F32ReinterpretI32
                | Operator::F64ReinterpretI64 => uses.bits = true,
                Operator::Call { function_index } | Operator::ReturnCall { function_index } => {
                    uses.calls.insert(function_index);
                }
                Operator::GlobalGet { global_index } => {
                    uses.globals.insert(global_index);
                }
                Operator::GlobalSet { global_index } => {
                    uses.sets.insert(global_index);
                }
                Operator::CallIndirect { .. } | Operator::ReturnCallIndirect { .. } => {
                    (uses.indirect, uses.other) = (true, true);
                }
                Operator::MemoryGrow { .. }
                | Operator::MemoryCopy { .. }
                | Operator::MemoryInit { .. }
                | Operator::TableSet { .. }
                | Operator::TableGrow { .. }
                | Operator::TableFill { .. }
                | Operator::TableInit { .. }
                | Operator::TableCopy { .. } => uses.other = true,
                _ => {}
            }
        }
        // Without an optimiser, bits go through variables in memory, each at a distance of its own.
        uses.bits |= doubles.iter().any(|at| words.contains(at) || words.contains(&(at + 4)));
        Ok(uses)
    }
}

/// All sections.
#[derive(Default)]
pub(crate) struct Info<'a> {
    /// Function types.
    pub types: Vec<FuncType>,
    /// Functions, imported ones first.
    pub funcs: Vec<Func<'a>>,
    /// Tables.
    pub tables: Vec<TableDecl>,
    /// Memories.
    pub memories: Vec<MemoryDecl>,
    /// Globals.
    pub globals: Vec<GlobalDecl>,
    /// Exports in order.
    pub exports: Vec<Export>,
    /// Element segments.
    pub elems: Vec<ElemSegment>,
    /// Data segments.
    pub data: Vec<Data<'a>>,
    /// The start function.
    pub start: Option<u32>,
    /// Names of functions, from the name section.
    pub names: HashMap<u32, String>,
    /// The global that the name section calls C's stack pointer.
    pub named_stack: Option<u32>,
    /// What the functions change.
    pub mutates: Mutations,
    /// What each function's body is made of; nothing for an import.
    pub uses: Vec<FuncUses>,
}

/// What linkers call the global that says how far C's stack reaches.
const STACK_POINTER: &str = "__stack_pointer";

/// What the translator knows.
pub(crate) fn features() -> WasmFeatures {
    WasmFeatures::WASM2
        .union(WasmFeatures::TAIL_CALL)
        .union(WasmFeatures::EXTENDED_CONST)
        .union(WasmFeatures::MULTI_MEMORY)
        .union(WasmFeatures::CALL_INDIRECT_OVERLONG)
        .union(WasmFeatures::BULK_MEMORY_OPT)
}

const NEWER: &str = "compile without this feature; Wasm 2.0 with tail calls, multiple memories and extended constant \
                     expressions is supported";

const ATOMIC: &str = "there are no atomic instructions and no shared memory here, and compiled without them an update \
                      by several threads of OpenMP is a race: write `reduction` for `omp atomic`, and let each thread \
                      write memory of its own";

impl<'a> Info<'a> {
    /// Validate and read a module.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        validate(bytes)?;
        let mut info = Info::default();
        let mut declared: Vec<u32> = Vec::new();
        let mut bodies = Vec::new();
        for payload in Parser::new(0).parse_all(bytes) {
            info.section(payload?, &mut declared, &mut bodies)?;
        }
        info.uses.resize(info.funcs.len(), FuncUses::default());
        for (ty, body) in declared.into_iter().zip(bodies) {
            info.mutates.read(&body)?;
            info.uses.push(FuncUses::read(&body)?);
            info.funcs.push(Func { ty, import: None, body: Some(body) });
        }
        Ok(info)
    }

    fn section(
        &mut self,
        payload: Payload<'a>,
        declared: &mut Vec<u32>,
        bodies: &mut Vec<FunctionBody<'a>>,
    ) -> Result<(), Error> {
        match payload {
            Payload::TypeSection(types) => self.type_section(types)?,
            Payload::ImportSection(imports) => {
                for group in imports {
                    match group? {
                        Imports::Single(_, i) => self.import(i.module, i.name, i.ty)?,
                        _ => return Err(Error::unsupported("the compact form of imports", 0, NEWER)),
                    }
                }
            }
            Payload::FunctionSection(funcs) => {
                for ty in funcs {
                    declared.push(ty?);
                }
            }
            Payload::TableSection(tables) => {
                for t in tables {
                    let t = t?;
                    supported(ValType::Ref(t.ty.element_type))?;
                    let init = match t.init {
                        TableInit::RefNull => None,
                        TableInit::Expr(e) => Some(constant(&e)?),
                    };
                    self.tables.push(TableDecl { ty: t.ty, init, import: None });
                }
            }
            Payload::MemorySection(memories) => {
                for m in memories {
                    self.memories.push(MemoryDecl { ty: m?, import: None });
                }
            }
            Payload::GlobalSection(globals) => {
                for g in globals {
                    let g = g?;
                    supported(g.ty.content_type)?;
                    self.globals.push(GlobalDecl { ty: g.ty, init: Some(constant(&g.init_expr)?), import: None });
                }
            }
            Payload::ExportSection(exports) => {
                for e in exports {
                    let e = e?;
                    self.exports.push(Export { name: e.name.to_owned(), kind: e.kind, index: e.index });
                }
            }
            Payload::StartSection { func, .. } => self.start = Some(func),
            Payload::ElementSection(elems) => self.element_section(elems)?,
            Payload::DataSection(data) => {
                for d in data {
                    let d = d?;
                    let mode = match d.kind {
                        DataKind::Passive => SegmentMode::Passive,
                        DataKind::Active { memory_index, offset_expr } => {
                            SegmentMode::Active(memory_index, constant(&offset_expr)?)
                        }
                    };
                    self.data.push(Data { mode, bytes: d.data });
                }
            }
            Payload::CodeSectionEntry(body) => bodies.push(body),
            Payload::CustomSection(c) => {
                if let KnownCustom::Name(names) = c.as_known() {
                    // Names are advice: a section that cannot be read is no error.
                    for n in names.into_iter().flatten() {
                        match n {
                            Name::Function(map) => {
                                self.names.extend(map.into_iter().flatten().map(|n| (n.index, n.name.to_owned())));
                            }
                            Name::Global(map) => {
                                let stack = map.into_iter().flatten().find(|n| n.name == STACK_POINTER);
                                self.named_stack = self.named_stack.or(stack.map(|n| n.index));
                            }
                            _ => {}
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn type_section(&mut self, types: TypeSectionReader<'a>) -> Result<(), Error> {
        for group in types {
            for ty in group?.into_types() {
                match ty.composite_type.inner {
                    CompositeInnerType::Func(f) => {
                        f.params().iter().chain(f.results()).try_for_each(|t| supported(*t))?;
                        self.types.push(f);
                    }
                    _ => return Err(Error::unsupported("a type that is no function type", 0, NEWER)),
                }
            }
        }
        Ok(())
    }

    fn element_section(&mut self, elems: ElementSectionReader<'a>) -> Result<(), Error> {
        for e in elems {
            let e = e?;
            let items = match e.items {
                ElementItems::Functions(fs) => {
                    fs.into_iter().map(|f| Ok(Const(vec![ConstOp::Func(f?)]))).collect::<Result<_, Error>>()?
                }
                ElementItems::Expressions(_, es) => {
                    es.into_iter().map(|e| constant(&e?)).collect::<Result<_, Error>>()?
                }
            };
            let mode = match e.kind {
                ElementKind::Passive => SegmentMode::Passive,
                ElementKind::Declared => SegmentMode::Declared,
                ElementKind::Active { table_index, offset_expr } => {
                    SegmentMode::Active(table_index.unwrap_or(0), constant(&offset_expr)?)
                }
            };
            self.elems.push(ElemSegment { mode, items });
        }
        Ok(())
    }

    fn import(&mut self, module: &str, name: &str, ty: TypeRef) -> Result<(), Error> {
        let import = Some(ImportName { module: module.to_owned(), name: name.to_owned() });
        match ty {
            TypeRef::Func(ty) => self.funcs.push(Func { ty, import, body: None }),
            TypeRef::Table(ty) => self.tables.push(TableDecl { ty, init: None, import }),
            TypeRef::Memory(ty) => self.memories.push(MemoryDecl { ty, import }),
            TypeRef::Global(ty) => {
                supported(ty.content_type)?;
                self.globals.push(GlobalDecl { ty, init: None, import });
            }
            _ => return Err(Error::unsupported(format!("the import {module}.{name}"), 0, NEWER)),
        }
        Ok(())
    }

    /// The global that says how far C's stack reaches: by its name, or else the first one that the
    /// module defines, if it begins as one does that a linker has put after data or a stack.
    pub(crate) fn stack_pointer(&self) -> Option<u32> {
        let begins =
            |g: &GlobalDecl| g.init.as_ref()?.literal().filter(|bits| *bits >= 1024 && bits.is_multiple_of(16));
        let first = self.globals.iter().position(|g| g.import.is_none());
        let first = first.filter(|&i| begins(&self.globals[i]).is_some()).map(|i| i as u32);
        self.stack_pointer_by_name().or(first).filter(|&i| self.may_be_stack_pointer(i))
    }

    /// The same, if it is called so.
    pub(crate) fn named_stack_pointer(&self) -> Option<u32> {
        self.stack_pointer_by_name().filter(|&i| self.may_be_stack_pointer(i))
    }

    fn may_be_stack_pointer(&self, global: u32) -> bool {
        self.globals.get(global as usize).is_some_and(|g| g.ty.mutable && g.ty.content_type == ValType::I32)
    }

    fn stack_pointer_by_name(&self) -> Option<u32> {
        let exported = self.exports.iter().find(|e| e.kind == ExternalKind::Global && e.name == STACK_POINTER);
        let imported = |g: &GlobalDecl| g.import.as_ref().is_some_and(|i| i.name == STACK_POINTER);
        let named = self.named_stack.or(exported.map(|e| e.index));
        named.or_else(|| self.globals.iter().position(imported).map(|i| i as u32))
    }

    /// What a function is called: in the name section, and where it is exported.
    pub(crate) fn names_of(&self, func: u32) -> impl Iterator<Item = &String> {
        let exported = self.exports.iter().filter(move |e| e.index == func && e.kind == ExternalKind::Func);
        self.names.get(&func).into_iter().chain(exported.map(|e| &e.name))
    }

    /// What the host has to call before anything else, since no function of the module does: it
    /// runs constructors of static objects. `_initialize` is WASI's name for it in a module that is
    /// a library (a reactor); `__wasm_call_ctors` is the linker's, which others leave exported
    /// instead.
    pub(crate) fn initialise(&self) -> Option<u32> {
        let exported = |name: &str| self.exports.iter().find(|e| e.name == name && e.kind == ExternalKind::Func);
        let found = ["_initialize", "__wasm_call_ctors"].into_iter().find_map(exported)?.index;
        let ty = self.type_of(found);
        (ty.params().is_empty() && ty.results().is_empty() && exported("_start").is_none()).then_some(found)
    }

    /// The type of a function.
    pub(crate) fn type_of(&self, func: u32) -> &FuncType {
        &self.types[self.funcs[func as usize].ty as usize]
    }
}

/// Validate. A module that only newer features make valid is told apart from one that nothing does.
fn validate(bytes: &[u8]) -> Result<(), Error> {
    let Err(e) = Validator::new_with_features(features()).validate_all(bytes) else { return Ok(()) };
    let is_valid = |with: WasmFeatures| Validator::new_with_features(with).validate_all(bytes).is_ok();
    if is_valid(WasmFeatures::all()) {
        let help = if is_valid(features().union(WasmFeatures::THREADS)) { ATOMIC } else { NEWER };
        return Err(Error::unsupported(format!("a feature that this module uses ({})", e.message()), e.offset(), help));
    }
    Err(e.into())
}

fn supported(ty: ValType) -> Result<(), Error> {
    match ty {
        ValType::I32 | ValType::I64 | ValType::F32 | ValType::F64 | ValType::V128 => Ok(()),
        ValType::Ref(RefType::FUNCREF | RefType::EXTERNREF) => Ok(()),
        ValType::Ref(_) => Err(Error::unsupported(format!("the type {ty}"), 0, NEWER)),
    }
}

/// Read a constant expression.
fn constant(e: &ConstExpr<'_>) -> Result<Const, Error> {
    let mut ops = Vec::new();
    let mut reader = e.get_operators_reader();
    while !reader.eof() {
        let (op, offset) = reader.read_with_offset()?;
        ops.push(match op {
            Operator::I32Const { value } => ConstOp::Bits(u128::from(value as u32)),
            Operator::I64Const { value } => ConstOp::Bits(u128::from(value as u64)),
            Operator::F32Const { value } => ConstOp::Bits(value.bits().into()),
            Operator::F64Const { value } => ConstOp::Bits(value.bits().into()),
            Operator::V128Const { value } => ConstOp::Bits(value.i128() as u128),
            Operator::RefNull { hty: HeapType::Abstract { .. } } => ConstOp::Bits(0),
            Operator::RefFunc { function_index } => ConstOp::Func(function_index),
            Operator::GlobalGet { global_index } => ConstOp::Global(global_index),
            Operator::I32Add => ConstOp::Add(false),
            Operator::I64Add => ConstOp::Add(true),
            Operator::I32Sub => ConstOp::Sub(false),
            Operator::I64Sub => ConstOp::Sub(true),
            Operator::I32Mul => ConstOp::Mul(false),
            Operator::I64Mul => ConstOp::Mul(true),
            Operator::End => continue,
            other => return Err(Error::unsupported(format!("`{other:?}` in a constant expression"), offset, NEWER)),
        });
    }
    Ok(Const(ops))
}
