//! Derivatives that are made once.
//!
//! To derive and compile takes a hundred times as long as to call what comes out, and programs that ask for a gradient tend to
//! ask for it again: another instance of a model, the next request of a server. A [`Cache`] owns a program and remembers every rule
//! that was made of it, by function, activities and options.
//!
//! A program is never changed while it is in a cache, so a rule that is found is the rule that would be made. Failures are
//! not remembered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use brolga_ir::{Options, Program, Request};

use crate::error::Error;
use crate::jit::DerivedRule;

/// One rule, made by whoever comes first.
type Place = Arc<OnceLock<DerivedRule>>;

/// The rules of one program. Cheap to clone; clones share what they remember, and threads may share one.
///
/// ```
/// use brolga::{ArgActivity, Cache, Options, Program, Request};
/// # use brolga::cranelift_codegen::ir;
/// # fn program() -> (Program, brolga::FuncKey) {
/// #     let mut program = Program::new();
/// #     let mut f = ir::Function::new();
/// #     let float = ir::AbiParam::new(ir::types::F64);
/// #     f.signature.params.push(float);
/// #     f.signature.returns.push(float);
/// #     let b = f.dfg.make_block();
/// #     let x = f.dfg.append_block_param(b, ir::types::F64);
/// #     f.layout.append_block(b);
/// #     use brolga::cranelift_codegen::cursor::{Cursor, FuncCursor};
/// #     use ir::InstBuilder;
/// #     let mut pos = FuncCursor::new(&mut f).at_bottom(b);
/// #     let y = pos.ins().fmul(x, x);
/// #     pos.ins().return_(&[y]);
/// #     let key = program.define("square", f, |_| 0).unwrap();
/// #     (program, key)
/// # }
/// let (program, square) = program();
/// let cache = Cache::new(program);
/// let request = Request::new(square, [ArgActivity::Active]);
/// let first = cache.rule(&request, &Options::default())?;
/// let second = cache.rule(&request, &Options::default())?;
/// assert!(first.is(&second));
/// # Ok::<(), brolga::Error>(())
/// ```
#[derive(Clone)]
pub struct Cache(Arc<Rules>);

struct Rules {
    program: Program,
    known: Mutex<HashMap<(Request, Options), Place>>,
}

impl Cache {
    /// A cache that knows nothing yet.
    pub fn new(program: Program) -> Self {
        Self(Arc::new(Rules { program, known: Mutex::new(HashMap::new()) }))
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.0.program
    }

    /// The rule for a request: the one that was made before, or a new one. Threads that ask for different rules do not wait for each
    /// other; if they ask for the same at once, both may make it, and one is kept.
    ///
    /// # Errors
    /// As [`DerivedRule::new`].
    pub fn rule(&self, request: &Request, options: &Options) -> Result<DerivedRule, Error> {
        let place = {
            let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(rule) = known.get(&(request.clone(), options.clone())).and_then(|place| place.get()) {
                return Ok(rule.clone());
            }
            Arc::clone(known.entry((request.clone(), options.clone())).or_default())
        };
        let rule = DerivedRule::new(&self.0.program, request, options)?;
        Ok(place.get_or_init(|| rule).clone())
    }

    /// How many rules it remembers.
    pub fn len(&self) -> usize {
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().filter(|place| place.get().is_some()).count()
    }

    /// Whether it remembers none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forget all rules. Those that somebody holds live on.
    pub fn clear(&self) {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
