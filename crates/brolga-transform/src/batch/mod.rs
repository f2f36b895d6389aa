//! Batches: a graph that carries several derivatives instead of one ([`Options::width`]).
//!
//! **Problem.** A Jacobian of n columns takes n runs of forward mode, each of which computes the
//! primal, addresses, branches and partials once more.
//!
//! **Answer.** Tangents are linear in the direction, and an instruction that reads a tangent is the
//! only kind that has to be there once for each. A name that is computed from a tangent is *wide*:
//! it stands for N values, and every other one, a partial among them, for one as before. So a graph
//! of forward mode is rewritten, instruction by instruction, when it has been assembled and pruned:
//! no rule knows of batches. The N values of a scalar are lanes of vectors ([`value`]), those of
//! memory lie side by side in the shadow ([`memory`]), a callee gets them all ([`calls`]).
//!
//! ```text
//! d1 = load.f64 shadow[v1; v1']              d5 = load.f64x2 shadow[v1; v1']
//!                                            d6 = load.f64x2 shadow[v1; v1'] from 16
//! d2 = fmul.f64 d1, v2            ─►         d7 = splat.f64x2 v2
//!                                            d8 = fmul.f64x2 d5, d7
//!                                            d9 = fmul.f64x2 d6, d7
//! ```
//!
//! **Before.** A graph that keeps the rules of `brolga_ir::verify`, of a function that moves no
//! floats in pieces. **After.** The same, of width N: lane k of what is wide is, bit for bit, what
//! the graph computes for derivative k alone, since no operation of a vector's lanes rounds
//! otherwise than that of a scalar.
//!
//! **Cost.** One pass over the graph. What cannot be carried in a batch is refused (AD0180).
//!
//! **Source.** Vector tangent mode (Griewank and Walther, 2008, section 3.2); `batch` of Enzyme.
//!
//! [`Options::width`]: brolga_ir::Options

use brolga_ir::block::{CfgBlock, CfgBlocks, Fragment, Ids, Target, Term};
use brolga_ir::inst::{AdInst, AdOp, Args, Arith, ClearQuery, Defs, Shape, Val};
use brolga_ir::map::{HashMap, HashSet, Table};
use brolga_ir::{BlockId, Diagnostic, Diagnostics, Options};
use cranelift_codegen::ir::{self, AbiParam, Signature, Type};
use cranelift_entity::SecondaryMap;

use crate::facts::Facts;

mod calls;
mod cotangents;
mod memory;
mod parts;
mod series;
mod value;

use parts::{WideValue, chunks};

/// What to do instead.
pub(crate) const ONE_BY_ONE: &str = "derive it for one direction (`Options::width` 1), and run it once for each";

/// What to do where there are no Taylor coefficients.
pub(crate) const BY_NAME: &str =
    "ask for tangents of tangents instead, by name (`%f__tangent__tangent`), or for Hessians";

/// Why there is no batch, or, if they were asked for, why there are no Taylor coefficients.
pub(crate) fn no_batch(options: &Options, what: &str) -> Diagnostic {
    let (kind, help) = match options.taylor {
        true => ("Taylor coefficients", BY_NAME),
        false => ("batch of derivatives", ONE_BY_ONE),
    };
    Diagnostic::new("AD0180", format!("{what} has no {kind}")).help(help)
}

/// Why there is no batch of a function.
pub(crate) fn refused(facts: &Facts<'_>, what: &str) -> Diagnostics {
    no_batch(facts.options, what).in_func(&facts.program.funcs[facts.variant.func].symbol).into()
}

/// Shapes of cotangents.
pub(crate) type Shapes = SecondaryMap<ir::Value, Option<Shape>>;

/// Make a graph of width N of one for one derivative. `narrow` are how many parameters and results
/// of its signature, at their beginnings, are not those of a derivative. Each part of a cotangent
/// is one of its own, of a value that the primal does not have: their shapes come with the graph.
///
/// # Errors
/// AD0180 at the first instruction that there is no batch of.
pub(crate) fn widen(
    graph: CfgBlocks,
    facts: &Facts<'_>,
    narrow: (usize, usize),
    ids: &mut Ids,
) -> Result<(CfgBlocks, Shapes), Diagnostics> {
    let width = facts.options.width;
    let mut w = Widener {
        facts,
        width: width as usize,
        ids,
        types: HashMap::default(),
        constants: HashMap::default(),
        poison: HashSet::default(),
        wide: HashMap::default(),
        splats: HashMap::default(),
        lanes: HashMap::default(),
        shadows: HashMap::default(),
        cotangents: HashMap::default(),
        ct: facts.activity.ct.clone(),
        held: HashMap::default(),
        out: Fragment::default(),
        at: None,
        unfit: None,
    };
    w.look(&graph);
    let params: Vec<_> = graph.blocks.iter().map(|(&id, b)| (id, b.params.clone())).collect();
    let params: Table<BlockId, Vec<(Val, Type)>> = params.into_iter().collect();
    let entry = graph.entry();
    let mut made: Vec<Option<CfgBlock>> = graph.blocks.keys().map(|_| None).collect();
    let order = order(&graph);
    let signature = wide_signature(&graph.signature, narrow, width);
    let mut blocks: Vec<Option<CfgBlock>> = graph.blocks.into_iter().map(|(_, b)| Some(b)).collect();
    for i in order {
        let block = blocks[i].take().expect("each is visited once");
        let first = if block.id == entry { narrow.0 } else { 0 };
        made[i] = Some(w.block(block, first, narrow.1, &params));
    }
    if let Some((at, what)) = w.unfit {
        return Err(at.map_or_else(|| refused(facts, what), |at| facts.at(at, no_batch(facts.options, what)).into()));
    }
    // What nothing leads to has no names that anything would read.
    let blocks = made.into_iter().flatten().map(|b| (b.id, b)).collect();
    Ok((CfgBlocks { symbol: graph.symbol, signature, blocks }, w.ct))
}

/// The signature of a function of width N, of which so many parameters and results at the
/// beginnings are not those of a derivative.
pub(crate) fn wide_signature(one: &Signature, narrow: (usize, usize), width: u32) -> Signature {
    let spread = |all: &[AbiParam], narrow: usize| -> Vec<AbiParam> {
        let wide = all[narrow..].iter().flat_map(|p| chunks(p.value_type, width as usize));
        all[..narrow].iter().copied().chain(wide.map(AbiParam::new)).collect()
    };
    let mut s = Signature::new(one.call_conv);
    s.params = spread(&one.params, narrow.0);
    s.returns = spread(&one.returns, narrow.1);
    s
}

/// Blocks that can be reached, each after what dominates it.
fn order(graph: &CfgBlocks) -> Vec<usize> {
    let edges = graph.edges();
    let (mut seen, mut found) = (vec![false; edges.len()], Vec::with_capacity(edges.len()));
    let mut work = vec![(0, edges.of(0).collect::<Vec<_>>())];
    seen[0] = true;
    while let Some((b, rest)) = work.last_mut() {
        match rest.pop() {
            Some(next) if !std::mem::replace(&mut seen[next], true) => {
                work.push((next, edges.of(next).collect()));
            }
            Some(_) => {}
            None => {
                found.push(*b);
                work.pop();
            }
        }
    }
    found.reverse();
    found
}

/// Writes the graph of width N.
struct Widener<'a, 'f> {
    facts: &'a Facts<'f>,
    width: usize,
    ids: &'a mut Ids,
    /// Types of names, as they were.
    types: HashMap<Val, Type>,
    /// Names of constants.
    constants: HashMap<Val, f64>,
    /// Names of integers all of whose bits are set: the bytes of a tangent that is not known.
    poison: HashSet<Val>,
    /// Names that are wide.
    wide: HashMap<Val, WideValue>,
    /// In the present block: vectors all of whose lanes are one value.
    splats: HashMap<(Val, Type), Val>,
    /// In the present block: wide names, value by value.
    lanes: HashMap<Val, Vec<Val>>,
    /// Names of shadow addresses, each the sum of an address and a delta.
    shadows: HashMap<Val, [Val; 2]>,
    /// What stands for a part of a value's cotangent.
    cotangents: HashMap<(ir::Value, usize), ir::Value>,
    /// Shapes of cotangents.
    ct: Shapes,
    /// Names of variables that hold a cotangent, and what its parts are held under.
    held: HashMap<Val, Vec<Val>>,
    /// The present block so far.
    out: Fragment,
    at: Option<ir::Inst>,
    /// Of what there is no batch.
    unfit: Option<(Option<ir::Inst>, &'static str)>,
}

impl Widener<'_, '_> {
    /// Types of names, and constants.
    fn look(&mut self, graph: &CfgBlocks) {
        let (mut taken, mut held) = (HashSet::default(), Vec::new());
        for block in graph.blocks.values() {
            self.types.extend(block.params.iter().copied());
            for inst in block.insts.values() {
                self.types.extend(inst.defs.iter().copied());
                match inst.op {
                    AdOp::Arith(Arith::Const(x), ..) => drop(self.constants.insert(inst.defs[0].0, x)),
                    AdOp::TakeCt(_) => drop(taken.insert(inst.defs[0].0)),
                    AdOp::Hold(name, v) => held.push((name, v)),
                    AdOp::Arith(Arith::Iconst(-1), ..) => drop(self.poison.insert(inst.defs[0].0)),
                    AdOp::Arith(Arith::Iadd, ref args, _) if matches!(args[1], Val::Delta(_)) => {
                        self.shadows.insert(inst.defs[0].0, [args[0], args[1]]);
                    }
                    _ => {}
                }
            }
        }
        for (name, v) in held.into_iter().filter(|(_, v)| taken.contains(v)) {
            let parts = chunks(self.types[&v], self.width).len();
            self.held.entry(name).or_insert_with(|| (0..parts).map(|_| Val::D(self.ids.dv())).collect());
        }
    }

    fn type_of(&self, v: Val) -> Type {
        match v {
            Val::Primal(v) => self.facts.func().dfg.value_type(v),
            _ => self.types[&v],
        }
    }

    fn unfit(&mut self, what: &'static str) {
        self.unfit.get_or_insert((self.at, what));
    }

    fn put(&mut self, defs: Defs, op: AdOp) {
        self.out.insert(self.ids.inst(), AdInst { defs, op, at: self.at });
    }

    fn emit(&mut self, op: AdOp, ty: Type) -> Val {
        let d = Val::D(self.ids.dv());
        self.put([(d, ty)].into(), op);
        d
    }

    fn arith(&mut self, op: Arith, args: &[Val], ty: Type) -> Val {
        self.emit(AdOp::Arith(op, Args::from(args), ty), ty)
    }

    /// A block; `first` of its parameters are narrow whatever their names.
    fn block(
        &mut self,
        block: CfgBlock,
        first: usize,
        results: usize,
        params: &Table<BlockId, Vec<(Val, Type)>>,
    ) -> CfgBlock {
        let CfgBlock { id, role, params: block_params, insts, mut term, term_at, cold } = block;
        (self.splats, self.lanes) = Default::default();
        self.out = Fragment::with_capacity(insts.len() * 2);
        let mut widened = Vec::with_capacity(block_params.len());
        for (i, &(name, ty)) in block_params.iter().enumerate() {
            if i >= first && (first > 0 || is_tangent(name)) {
                let parts = self.named(name, ty);
                widened.extend(parts.into_iter().zip(chunks(ty, self.width)));
            } else {
                widened.push((name, ty));
            }
        }
        for inst in insts {
            self.at = inst.1.at;
            self.inst(inst);
        }
        self.at = term_at;
        self.term(&mut term, results, params);
        let insts = std::mem::take(&mut self.out);
        CfgBlock { id, role, params: widened, insts, term, term_at, cold }
    }

    fn term(&mut self, term: &mut Term, results: usize, params: &Table<BlockId, Vec<(Val, Type)>>) {
        if let Term::Return(values) = term {
            let all = std::mem::take(values);
            values.extend_from_slice(&all[..results]);
            for &v in &all[results..] {
                values.extend(self.parts(v, self.type_of(v)));
            }
            return;
        }
        let targets: Vec<&mut Target> = term.targets_mut().collect();
        for target in targets {
            let args = std::mem::take(&mut target.args);
            for (&arg, &(name, ty)) in args.iter().zip(&params[&target.block]) {
                match name {
                    _ if is_tangent(name) => target.args.extend(self.parts(arg, ty)),
                    _ => target.args.push(arg),
                }
            }
        }
    }

    fn inst(&mut self, (id, inst): (brolga_ir::InstId, AdInst)) {
        let wide = |v: Val| self.wide.contains_key(&v);
        let mut reads_wide = false;
        inst.each_read(|v| reads_wide |= wide(v));
        match inst.op {
            AdOp::Arith(ref op, ref args, ty) if reads_wide => {
                let (op, args) = (op.clone(), args.to_vec());
                let parts = self.wide_arith(&op, &args, ty);
                self.define(inst.defs[0].0, ty, parts);
            }
            AdOp::Moved(primal, ref args) if reads_wide => {
                let (args, (name, ty)) = (args.to_vec(), inst.defs[0]);
                let op = |args: &[Val]| AdOp::Moved(primal, Args::from(args));
                let parts = self.each_lane(&args, ty, op);
                self.define(name, ty, parts);
            }
            AdOp::TakeCt(_) | AdOp::AddCt(..) | AdOp::ZeroCt(_) => self.cotangent(&inst),
            AdOp::Hold(name, _) | AdOp::Held(name) if self.held.contains_key(&name) => self.hold(name, &inst),
            AdOp::AddMem { .. } => self.add(&inst),
            AdOp::TakeMem { .. } | AdOp::PeekMem { .. } => self.read(&inst),
            AdOp::ZeroMem { bytes: ..4, asks: ClearQuery::Zero | ClearQuery::Bits, .. } => {
                self.unfit("a part of a float")
            }
            AdOp::Series(primal, result, _) => self.series(primal, result.into(), &inst),
            AdOp::LoadTangent { .. } => self.load(&inst),
            AdOp::StoreTangent { .. } => self.store(&inst),
            // They concern pieces of floats, of which there are none.
            AdOp::Piece { .. } => {}
            AdOp::Call { .. } => self.call(id, inst, reads_wide),
            AdOp::TrapIf(v, check) if reads_wide => {
                for lane in self.lanes(v) {
                    self.put(Defs::default(), AdOp::TrapIf(lane, check));
                }
            }
            _ if reads_wide => self.unfit("this instruction"),
            _ => self.out.insert(id, inst),
        }
    }

    /// Names for the parts of a wide name.
    fn named(&mut self, name: Val, ty: Type) -> Vec<Val> {
        let n = chunks(ty, self.width).len();
        let parts: Vec<Val> = match name {
            Val::Tangent(v, _) => (0..n).map(|k| Val::Tangent(v, k as u8)).collect(),
            _ => (0..n).map(|_| Val::D(self.ids.dv())).collect(),
        };
        self.wide.insert(name, WideValue { ty, parts: parts.clone() });
        parts
    }

    /// A name is wide, and these are its parts. Those of a tangent have names of their own.
    fn define(&mut self, name: Val, ty: Type, parts: Vec<Val>) {
        if is_tangent(name) {
            let names = self.named(name, ty);
            for ((name, part), ty) in names.into_iter().zip(parts).zip(chunks(ty, self.width)) {
                self.put([(name, ty)].into(), AdOp::Arith(Arith::Copy, [part].into(), ty));
            }
        } else {
            self.wide.insert(name, WideValue { ty, parts });
        }
    }
}

fn is_tangent(name: Val) -> bool {
    matches!(name, Val::Tangent(..))
}
