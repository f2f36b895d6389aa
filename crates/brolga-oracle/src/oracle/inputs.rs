//! Inputs of an oracle's run: leaves for active lanes and for elements of buffers, and what becomes
//! of them.
//!
//! **Question.** Which numbers is a run differentiated by, and which node of the graph is each at
//! the end?
//!
//! **Answer.** `Oracle::inputs` makes a leaf for each lane of an active argument, and for each
//! element of a buffer of floats ([`InputCell`]), known by its address, so that buffers which name
//! it share it. Elements that hold integers have a leaf that nothing leads to. [`final_node`] says
//! which node lies at an element's place when the run is over, [`lane_nodes`] those of a result.
//!
//! **Errors.** Arguments of another type, shadows of another length, and elements of two widths at
//! one place do not fit the call.
//!
//! **Safety.** Buffers are readable as far as they say.
//!
//! **Cost.** A node and an entry in a hash table for each element.

use std::collections::HashMap;

use brolga_ir::FuncKey;
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{Type, types};

use super::subject::{Activity, Elem, Oracle, OracleArg};
use crate::error::OracleError;
use crate::interp::{
    Byte, Domain, Machine, NodeId, Prov, TrackedVal, float_of, from_bits, lanes, to_bits, write_float,
};

/// An element of a buffer, as an input. Elements are known by address, see the header.
pub(super) struct InputCell {
    pub addr: usize,
    pub width: u8,
    pub leaf: NodeId,
    pub shadow: f64,
}

/// The inputs of a run.
pub(super) struct Inputs {
    pub args: Vec<TrackedVal>,
    /// For each active argument the node of each lane.
    pub lanes: Vec<Option<Vec<NodeId>>>,
    /// For each buffer (those of arguments, then extra ones) the cell of each element.
    pub buffers: Vec<Option<Vec<usize>>>,
    pub cells: Vec<InputCell>,
}

/// Which input a leaf is.
pub(super) enum Leaf {
    Lane { arg: usize, lane: usize },
    Element { buffer: usize, index: usize },
}

impl<'p> Oracle<'p> {
    /// Make the inputs of a run: a leaf for each active lane and each element of a duplicated or
    /// extra buffer.
    pub(super) unsafe fn inputs<D: Domain>(
        &self,
        m: &mut Machine<'p, D>,
        func: FuncKey,
        args: &[OracleArg],
        leaf: &mut dyn FnMut(&mut D, f64, Leaf) -> NodeId,
    ) -> Result<Inputs, OracleError> {
        let types = self.param_types(func, args.len())?;
        let mut inputs = Inputs { args: Vec::new(), lanes: Vec::new(), buffers: Vec::new(), cells: Vec::new() };
        for (i, (arg, &ty)) in args.iter().zip(&types).enumerate() {
            let bits = to_bits(&arg.value);
            if arg.value.ty().bytes() != ty.bytes() {
                let given = arg.value.ty();
                return Err(OracleError::BadCall(format!("argument {i} has type {ty}, not {given}")));
            }
            if arg.activity != Activity::Active {
                inputs.args.push(TrackedVal::clean(bits));
                inputs.lanes.push(None);
                continue;
            }
            let Some(width) = float_width(ty) else {
                return Err(OracleError::BadCall(format!("argument {i} of type {ty} cannot be active")));
            };
            let mut bytes = [Byte::Clean; 16];
            let mut nodes = Vec::new();
            for (k, x) in float_lanes(bits, ty).enumerate() {
                let n = leaf(&mut m.domain, x, Leaf::Lane { arg: i, lane: k });
                write_float(&mut bytes, k * width as usize, n, width);
                nodes.push(n);
            }
            inputs.args.push(TrackedVal { bits, prov: Prov::new(bytes) });
            inputs.lanes.push(Some(nodes));
        }
        // Map from address to the cell there, because an element may be named by several buffers.
        let mut known: HashMap<usize, usize> = HashMap::new();
        let of_args = args.iter().map(|a| match a.activity {
            Activity::Duplicated => a.buffer.map(|b| (b, a.shadow.as_ref(), &a.integers[..])),
            _ => None,
        });
        let of_extra = self.extra.iter().map(|(b, s)| Some((*b, s.as_ref(), &[][..])));
        for (k, buffer) in of_args.chain(of_extra).enumerate() {
            let Some((b, shadow, integers)) = buffer.filter(|b| b.0.elem != Elem::Bytes) else {
                inputs.buffers.push(None);
                continue;
            };
            if let Some(s) = shadow
                && s.len() != b.n_elems()
            {
                let n = b.n_elems();
                return Err(OracleError::BadCall(format!("buffer {k}: shadow of {} for {n} elements", s.len())));
            }
            let width = b.elem.width() as u8;
            let mut cells = Vec::new();
            for i in 0..b.n_elems() {
                let addr = b.addr + i * b.elem.width();
                if let Some(&c) = known.get(&addr)
                    && inputs.cells[c].width == width
                {
                    cells.push(c);
                    continue;
                }
                if m.marks.load(addr, width as usize) != Prov::Clean {
                    return Err(OracleError::BadCall(format!("buffer {k} overlaps elements of another width")));
                }
                // SAFETY: the caller says that buffers are readable.
                let x = float_of(unsafe { read_bits(addr, width) }, width);
                let node = leaf(&mut m.domain, x, Leaf::Element { buffer: k, index: i });
                if !integers.contains(&i) {
                    m.marks.store(addr, width as usize, &Prov::Float { node, width });
                }
                known.insert(addr, inputs.cells.len());
                cells.push(inputs.cells.len());
                inputs.cells.push(InputCell { addr, width, leaf: node, shadow: shadow.map_or(0.0, |s| s[i]) });
            }
            inputs.buffers.push(Some(cells));
        }
        Ok(inputs)
    }
}

/// The width of the float lanes of a type in bytes.
pub(super) fn float_width(ty: Type) -> Option<u8> {
    (ty.lane_type().is_float() && matches!(ty.lane_bits(), 32 | 64)).then(|| (ty.lane_bits() / 8) as u8)
}

/// The lanes of a value of float type.
pub(super) fn float_lanes(bits: u128, ty: Type) -> impl Iterator<Item = f64> {
    lanes(ty, bits).map(move |x| float_of(x, (ty.lane_bits() / 8) as u8))
}

/// The value of float type `ty` with these lanes, rounded to its precision.
pub(super) fn from_lanes(lanes: &[f64], ty: Type) -> DataValue {
    let n = ty.lane_bits();
    let bits = lanes.iter().enumerate().fold(0u128, |all, (i, &x)| {
        let lane: u128 = if n == 32 { (x as f32).to_bits().into() } else { x.to_bits().into() };
        all | lane << (n * i as u32)
    });
    from_bits(bits, ty)
}

pub(super) fn data_values(vals: &[TrackedVal], types: &[Type]) -> Vec<DataValue> {
    vals.iter().zip(types).map(|(v, &ty)| from_bits(v.bits, ty)).collect()
}

/// The node of each lane of a result of float type.
pub(super) fn lane_nodes<D: Domain>(m: &mut Machine<'_, D>, v: &TrackedVal, ty: Type) -> Vec<Option<NodeId>> {
    let Some(width) = float_width(ty) else { return Vec::new() };
    let nodes = float_lanes(v.bits, ty).enumerate();
    nodes.map(|(i, x)| m.node_of(v.prov.float(i * width as usize, width), x)).collect()
}

/// The node of the final contents of a cell.
pub(super) unsafe fn final_node<D: Domain>(m: &mut Machine<'_, D>, c: &InputCell) -> Option<NodeId> {
    // SAFETY: promised by the caller.
    let bits = unsafe { read_bits(c.addr, c.width) };
    let x = float_of(bits, c.width);
    let there = TrackedVal { bits, prov: m.marks.load(c.addr, c.width as usize) };
    let ty = if c.width == 4 { types::F32 } else { types::F64 };
    let origin = m.used_as(there, ty).prov.float(0, c.width);
    m.node_of(origin, x)
}

/// The bits of a float in memory.
unsafe fn read_bits(addr: usize, width: u8) -> u128 {
    // SAFETY: promised by the caller.
    unsafe {
        if width == 4 {
            (addr as *const u32).read_unaligned().into()
        } else {
            (addr as *const u64).read_unaligned().into()
        }
    }
}
