//! What second derivatives cost: a Hessian-vector product beside the gradient, and, for the
//! embedding of a graph in two to ten dimensions, gradients and whole Hessians beside the value.
//!
//! Gradient and product are called as users call them, through the guarded entry, in turns, and the
//! minimum of each counts. Both have the same request and zero what they add to. Before, products
//! along two directions are compared with each other, since a Hessian is symmetric (a test compares
//! those of the files' lines with the oracle's); and gradient and Hessian of the embedding with
//! numbers known from dual numbers over a tape, in another language.

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::drivers::{Argument, Derivatives, Point};
use brolga::second::{ArgDirection, HessianProducts};
use brolga::{Arg, ArgActivity, DerivedRule, HessianRule, Mode, Request, ResultActivity};
use brolga_driver::memory::Block;

use crate::Configuration;
use crate::data::random;
use crate::measure::{Effort, in_turns, measure as first_order};
use crate::prepared::{Failure, argument, requests};
use crate::problem::{Input, Problem, Size};
use crate::problems::irregular::embed;

/// What a Hessian-vector product of one problem costs.
#[derive(Clone, Debug)]
pub struct ProductRow {
    /// The problem.
    pub name: &'static str,
    /// One gradient.
    pub gradient_ns: f64,
    /// Value, gradient and one product.
    pub product_ns: f64,
}

/// What derivatives of the embedding cost.
#[derive(Clone, Debug)]
pub struct EmbeddingRow {
    /// The dimension of the space; there are ten times as many inputs.
    pub dimension: usize,
    /// One call of the primal.
    pub primal_ns: f64,
    /// One gradient.
    pub gradient_ns: f64,
    /// The Hessian, by the driver.
    pub hessian_ns: f64,
}

/// Gradient and product, with their memory.
struct ProductCall {
    gradient: DerivedRule,
    /// Which shadows the gradient adds to.
    added: Vec<usize>,
    product: HessianRule,
    args: Vec<Arg>,
    along: Vec<ArgDirection>,
    seeds: Vec<DataValue>,
    _blocks: Vec<Block>,
    shadows: Vec<Block>,
    /// Directions of memory.
    tangents: Vec<Block>,
    /// ProductCall in memory.
    products: Vec<Block>,
    out: HessianProducts,
    values: Vec<DataValue>,
    cotangents: Vec<Option<DataValue>>,
}

impl ProductCall {
    fn new(problem: &Problem, how: Configuration) -> Result<Self, Failure> {
        let failed = |error| Failure::Run { name: problem.name, error };
        let (program, all) = requests(problem)?;
        let returns = &program.funcs[all[0].func].signature.returns;
        let request = Request { results: vec![ResultActivity::Active; returns.len()], ..all[0].clone() };
        let mode = if how.mode == Mode::Split { Mode::Combined } else { how.mode };
        let gradient =
            DerivedRule::new(&program, &request, &Configuration { mode, ..how }.options()).map_err(failed)?;
        let product = HessianRule::new(&program, &request, &how.options()).map_err(failed)?;
        let (mut blocks, mut shadows) = (Vec::new(), Vec::new());
        let args: Vec<Arg> = problem.args.iter().map(|i| argument(i, 1, &mut blocks, &mut shadows)).collect();
        let alike = |_| shadows.iter().map(|s| Block::new(&vec![0; s.size() as usize])).collect::<Vec<_>>();
        let [tangents, products] = [0, 1].map(alike);
        let mut memory = tangents.iter().zip(&products);
        let along = request.args.iter().map(|a| match a.activity {
            ArgActivity::Active => ArgDirection::Value(DataValue::F64(0.0.into())),
            ArgActivity::Duplicated => memory.next().map_or(ArgDirection::Still, |(tangent, product)| {
                ArgDirection::Memory { tangent: tangent.address(), product: product.address() }
            }),
            ArgActivity::Const => ArgDirection::Still,
        });
        let along = along.collect();
        let shadowed = args.iter().enumerate().filter(|a| a.1.shadow != 0).map(|(i, _)| i);
        let added = shadowed.enumerate().filter(|(_, i)| !gradient.overwrites(*i)).map(|(k, _)| k).collect();
        let one = |ty| match ty {
            brolga::cranelift_codegen::ir::types::F64 => DataValue::F64(1.0.into()),
            ty => DataValue::read_from_slice_ne(&[0; 16], ty),
        };
        let seeds = returns.iter().map(|r| one(r.value_type)).collect();
        let (out, values, cotangents) = Default::default();
        Ok(Self {
            gradient,
            added,
            product,
            args,
            along,
            seeds,
            _blocks: blocks,
            shadows,
            tangents,
            products,
            out,
            values,
            cotangents,
        })
    }

    fn gradient(&mut self) -> Result<(), brolga::Error> {
        self.added.iter().for_each(|k| self.shadows[*k].bytes_mut().fill(0));
        let (values, cotangents) = (&mut self.values, &mut self.cotangents);
        // SAFETY: pointers are to blocks that are as large as the problem says; so are shadows.
        unsafe { self.gradient.gradient(&self.args, &self.seeds, values, cotangents) }.map(drop)
    }

    fn product(&mut self) -> Result<(), brolga::Error> {
        self.shadows.iter_mut().chain(&mut self.products).for_each(|s| s.bytes_mut().fill(0));
        // SAFETY: as for the gradient; directions and products are as large.
        unsafe { self.product.product(&self.args, &self.along, &self.seeds, &mut self.out) }.map(drop)
    }

    /// The product with a direction, both flattened.
    fn along(&mut self, problem: &Problem, direction: &[f64]) -> Result<Vec<f64>, Failure> {
        let (mut rest, mut tangents) = (direction, self.tangents.iter_mut());
        for (input, along) in problem.args.iter().zip(&mut self.along) {
            match (input, along) {
                (Input::Active(_), ArgDirection::Value(v)) => {
                    let own;
                    (own, rest) = rest.split_at(1);
                    *v = DataValue::F64(own[0].into());
                }
                (Input::Floats(x) | Input::Singles(x), _) => {
                    let own;
                    (own, rest) = rest.split_at(x.len());
                    tangents.next().into_iter().for_each(|t| put(input, own, t.bytes_mut()));
                }
                _ => {}
            }
        }
        self.product().map_err(|error| Failure::Run { name: problem.name, error })?;
        Ok(flat(problem, &self.out.products, &self.products))
    }

    /// Compare products along two directions with each other.
    fn check(&mut self, problem: &Problem) -> Result<(), Failure> {
        let [u, v] = [3, 4].map(|seed| random(seed, problem.inputs().len()));
        let [hu, hv] = [self.along(problem, &u)?, self.along(problem, &v)?];
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let size: f64 = u.iter().zip(&hv).chain(v.iter().zip(&hu)).map(|(a, b)| (a * b).abs()).sum();
        let (is, want) = (dot(&u, &hv), dot(&v, &hu));
        // Written so that NaN is wrong.
        let symmetric = (is - want).abs() <= 1e4 * problem.tolerance * size;
        if symmetric { Ok(()) } else { Err(wrong(problem, "the Hessian's symmetry", is, want)) }
    }
}

/// A number that is not as expected.
fn wrong(problem: &Problem, what: &'static str, is: f64, want: f64) -> Failure {
    Failure::Wrong { name: problem.name, what, element: 0, is, want }
}

/// Floats into the memory of an argument.
fn put(input: &Input, floats: &[f64], bytes: &mut [u8]) {
    let single = matches!(input, Input::Singles(_));
    for (place, x) in bytes.chunks_exact_mut(if single { 4 } else { 8 }).zip(floats) {
        if single {
            place.copy_from_slice(&(*x as f32).to_ne_bytes());
        } else {
            place.copy_from_slice(&x.to_ne_bytes());
        }
    }
}

/// What belongs to the inputs, by value and in memory, in their order.
fn flat(problem: &Problem, by_value: &[Option<DataValue>], memory: &[Block]) -> Vec<f64> {
    let mut memory = memory.iter();
    let mut all = Vec::new();
    for (input, value) in problem.args.iter().zip(by_value) {
        match (input, value) {
            (Input::Active(_), Some(DataValue::F64(x))) => all.push(x.as_f64()),
            (Input::Floats(_), _) => {
                let bytes = memory.next().map_or(&[][..], Block::bytes).chunks_exact(8);
                all.extend(bytes.map(|b| f64::from_ne_bytes(b.try_into().unwrap_or_default())));
            }
            (Input::Singles(_), _) => {
                let bytes = memory.next().map_or(&[][..], Block::bytes).chunks_exact(4);
                all.extend(bytes.map(|b| f64::from(f32::from_ne_bytes(b.try_into().unwrap_or_default()))));
            }
            _ => {}
        }
    }
    all
}

/// Check a problem's Hessian, then measure a product with it.
///
/// # Errors
/// See [`Failure`].
pub fn measure(problem: &Problem, how: Configuration, effort: Effort) -> Result<ProductRow, Failure> {
    let mut products = ProductCall::new(problem, how)?;
    products.check(problem)?;
    products.gradient().map_err(|error| Failure::Run { name: problem.name, error })?;
    let [gradient_ns, product_ns] = in_turns(&mut products, [|p| drop(p.gradient()), |p| drop(p.product())], effort);
    Ok(ProductRow { name: problem.name, gradient_ns, product_ns })
}

/// The loss, the norm of the gradient, its first element, the Hessian's trace and Frobenius norm,
/// by dimension from 2 on.
const EMBEDDINGS: [[f64; 5]; 9] = [
    [0.8838768708108744, 0.7078846641824237, 0.26367985532777855, -39.71217553998204, 26.672809293831595],
    [1.3922548060846385, 0.9751748201905988, 0.3182693700409131, -86.9355129998533, 38.12384001403831],
    [1.5619941498291103, 0.919347181291073, 0.24141673077542358, -123.5999108969644, 43.232817092529686],
    [1.9554822715436089, 1.0613373132173105, 0.2871228615271634, -166.32772296290463, 49.704152212768115],
    [2.2259715109559997, 1.0891755101148488, 0.23664321725257853, -203.58872043202317, 54.02928731369177],
    [2.5359251411306247, 1.1543951640967305, 0.2671057640914583, -242.78337077984588, 58.48471022523283],
    [2.8786138027615085, 1.2331686878365709, 0.23734966101620558, -281.9951283363598, 62.67128977371847],
    [3.1252584418685805, 1.2478816629569716, 0.2519070532878973, -317.91993531555227, 65.88615734371231],
    [3.517819227587905, 1.3565082091147815, 0.23972417396018328, -359.28025094588895, 70.05140462764533],
];

/// The embedding in two to ten dimensions: compared with the numbers that are known, then measured.
///
/// # Errors
/// See [`Failure`].
pub fn embeddings(how: Configuration, effort: Effort) -> Result<Vec<EmbeddingRow>, Failure> {
    (2..).zip(&EMBEDDINGS).map(|(dimension, want)| embedding(dimension, want, how, effort)).collect()
}

fn embedding(dimension: usize, want: &[f64; 5], how: Configuration, effort: Effort) -> Result<EmbeddingRow, Failure> {
    let problem = embed(Size::Length(dimension));
    let mut at = point(&problem, how)?;
    let is = of_embedding(&mut at).map_err(|error| Failure::Run { name: problem.name, error })?;
    let what = ["the loss", "the gradient's norm", "the gradient", "the Hessian's trace", "the Hessian's norm"];
    for ((is, want), what) in is.into_iter().zip(*want).zip(what) {
        // Written so that NaN is wrong.
        let right = (is - want).abs() <= 1e-12 * want.abs();
        if !right {
            return Err(wrong(&problem, what, is, want));
        }
    }
    let first = first_order(&problem, how, effort)?;
    let [hessian_ns] = in_turns(&mut at, [|at| drop(at.hessian(&[1.0]))], effort);
    Ok(EmbeddingRow { dimension, primal_ns: first.primal_ns, gradient_ns: first.gradient_ns, hessian_ns })
}

/// The problem at a point, for drivers.
fn point(problem: &Problem, how: Configuration) -> Result<Point, Failure> {
    let (program, all) = requests(problem)?;
    let inputs = problem.args.iter().map(|input| match input {
        Input::Active(x) => Argument::Active(DataValue::F64((*x).into())),
        Input::Floats(x) => Argument::Floats(x.clone()),
        Input::Singles(x) => Argument::Singles(x.iter().map(|x| *x as f32).collect()),
        Input::ConstFloats(x) => Argument::Bytes(x.iter().flat_map(|x| x.to_ne_bytes()).collect()),
        Input::Bytes(b) => Argument::Bytes(b.clone()),
        Input::Longs(n) => Argument::Bytes(n.iter().flat_map(|n| n.to_ne_bytes()).collect()),
        Input::Int(n) => Argument::Const(DataValue::I64(*n)),
        Input::Int32(n) => Argument::Const(DataValue::I32(*n)),
    });
    // SAFETY: buffers are as large as the problem says.
    let made = unsafe { Point::new(&program, all[0].func, inputs.collect(), &how.options()) };
    made.map_err(|error| Failure::Run { name: problem.name, error })
}

/// The numbers that are known.
fn of_embedding(at: &mut Point) -> Result<[f64; 5], brolga::Error> {
    let (value, gradient) = at.value_and_gradient()?;
    let hessian = at.hessian(&[1.0])?;
    let norm = |all: &mut dyn Iterator<Item = &f64>| all.map(|x| x * x).sum::<f64>().sqrt();
    let trace = (0..gradient.len()).map(|i| hessian[i][i]).sum();
    Ok([value, norm(&mut gradient.iter()), gradient[0], trace, norm(&mut hessian.iter().flatten())])
}
