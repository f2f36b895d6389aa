//! The smallest tape engine: four fields, four operations, one backward pass.
//!
//! ```text
//! value     what was computed
//! grad      ∂ root / ∂ this
//! prev      what it was computed from
//! backward  how its gradient flows to those
//! ```
//!
//! `brolga_oracle::tape` is the same engine for whole programs: the nodes come from an interpreter,
//! live in one arena, and their order of creation replaces the depth-first search below.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ops::{Add, Mul};
use std::rc::Rc;

/// From a node's gradient to what it adds to the gradients of its operands, in their order.
type Backward = Box<dyn Fn(f64) -> Vec<f64>>;

struct Node {
    value: f64,
    grad: Cell<f64>,
    prev: Vec<Var>,
    backward: Backward,
}

/// A value in the graph. Cloning it makes another edge to the same node.
#[derive(Clone)]
struct Var(Rc<Node>);

impl Var {
    fn node(value: f64, prev: Vec<Var>, backward: impl Fn(f64) -> Vec<f64> + 'static) -> Var {
        Var(Rc::new(Node { value, grad: Cell::new(0.0), prev, backward: Box::new(backward) }))
    }

    /// An input or a constant: nothing to flow to.
    fn leaf(value: f64) -> Var {
        Var::node(value, Vec::new(), |_| Vec::new())
    }

    fn sin(&self) -> Var {
        let x = self.0.value;
        Var::node(x.sin(), vec![self.clone()], move |g| vec![g * x.cos()])
    }

    fn exp(&self) -> Var {
        let y = self.0.value.exp();
        Var::node(y, vec![self.clone()], move |g| vec![g * y])
    }

    /// Fill in `grad` of everything that this depends on.
    fn backward(&self) {
        let order = topological(self);
        order.iter().for_each(|v| v.0.grad.set(0.0));
        self.0.grad.set(1.0);
        for v in order.iter().rev() {
            for (p, g) in v.0.prev.iter().zip((v.0.backward)(v.0.grad.get())) {
                p.0.grad.set(p.0.grad.get() + g);
            }
        }
    }
}

/// Operands before results: depth-first search, each node after all its operands.
fn topological(root: &Var) -> Vec<Var> {
    fn visit(v: &Var, seen: &RefCell<HashSet<*const Node>>, order: &mut Vec<Var>) {
        if seen.borrow_mut().insert(Rc::as_ptr(&v.0)) {
            v.0.prev.iter().for_each(|p| visit(p, seen, order));
            order.push(v.clone());
        }
    }
    let mut order = Vec::new();
    visit(root, &RefCell::default(), &mut order);
    order
}

impl Add for &Var {
    type Output = Var;
    fn add(self, o: &Var) -> Var {
        Var::node(self.0.value + o.0.value, vec![self.clone(), o.clone()], |g| vec![g, g])
    }
}

impl Mul for &Var {
    type Output = Var;
    fn mul(self, o: &Var) -> Var {
        let (x, y) = (self.0.value, o.0.value);
        Var::node(x * y, vec![self.clone(), o.clone()], move |g| vec![g * y, g * x])
    }
}

fn main() {
    // f(x) = x² + 3x + 2. Both uses of x add to its gradient.
    let x = Var::leaf(5.0);
    let f = &(&(&x * &x) + &(&Var::leaf(3.0) * &x)) + &Var::leaf(2.0);
    f.backward();
    println!("f(5)  = {}", f.0.value);
    println!("f'(5) = {}", x.0.grad.get());
    assert_eq!((f.0.value, x.0.grad.get()), (42.0, 13.0));

    // g(x) = exp(sin x), g' = exp(sin x) cos x.
    let x = Var::leaf(0.5);
    let g = x.sin().exp();
    g.backward();
    assert!((x.0.grad.get() - 0.5f64.sin().exp() * 0.5f64.cos()).abs() < 1e-15);
}
