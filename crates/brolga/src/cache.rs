//! Cache of rules: each derivative of a program is made once.
//!
//! **Problem.** To derive and compile a short function takes much longer than to call what comes
//! out, and programs that ask for a gradient tend to ask for it again: another instance of a model,
//! the next request of a server.
//!
//! **Answer.** A [`Cache`] owns a program and remembers every rule that was made of it, by
//! function, activities, hints and options. Failures are not remembered.
//!
//! **Invariant.** A program is never changed while it is in a cache, so a rule that is found is the
//! rule that would be made.
//!
//! **Cost.** A rule that is found costs a hash of what was asked, under a lock that no derivation
//! holds. Rules stay until they are [forgotten](Cache::clear).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use brolga_ir::{Options, Program, Request};

use crate::error::Error;
use crate::jit::DerivedRule;

/// Rules by what was asked.
type KnownRules = HashMap<(Request, Options), DerivedRule>;

/// The rules of one program. Cheap to clone; clones share what they remember, and threads may share
/// one.
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
/// cache.clear();
/// assert!(cache.is_empty());
/// # Ok::<(), brolga::Error>(())
/// ```
#[derive(Clone)]
pub struct Cache(Arc<CachedRules>);

struct CachedRules {
    program: Program,
    known: Mutex<KnownRules>,
}

impl Cache {
    /// A cache that knows nothing yet.
    ///
    /// ```
    /// # use brolga::Cache;
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// let cache = Cache::new(program);
    /// assert!(cache.is_empty()); // a rule is made when it is asked for
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(program: Program) -> Self {
        Self(Arc::new(CachedRules { program, known: Mutex::new(HashMap::new()) }))
    }

    /// The program.
    ///
    /// ```
    /// # use brolga::Cache;
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// let cache = Cache::new(program);
    /// assert_eq!(cache.program().funcs[square].symbol, "square");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn program(&self) -> &Program {
        &self.0.program
    }

    /// The rule for a request: the one that was made before, or a new one. Threads that ask for
    /// different rules do not wait for each other; if they ask for the same at once, both may make
    /// it, and one is kept.
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, Cache, Options, Request, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// let cache = Cache::new(program);
    /// let rule = cache.rule(&Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// let double = |x: f64| DataValue::F64(x.into());
    /// let (mut values, mut slopes) = (Vec::new(), Vec::new());
    /// // SAFETY: the function accesses no memory.
    /// unsafe { rule.gradient(&[Arg::new(double(3.0))], &[double(1.0)], &mut values, &mut slopes) }?;
    /// assert_eq!(slopes, [Some(double(6.0))]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`DerivedRule::new`].
    pub fn rule(&self, request: &Request, options: &Options) -> Result<DerivedRule, Error> {
        let key = (request.clone(), options.clone());
        if let Some(rule) = self.known().get(&key) {
            return Ok(rule.clone());
        }
        let rule = DerivedRule::new(&self.0.program, request, options)?;
        Ok(self.known().entry(key).or_insert(rule).clone())
    }

    fn known(&self) -> MutexGuard<'_, KnownRules> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many rules it remembers.
    ///
    /// ```
    /// # use brolga::{ArgSpec, Cache, Effort, Options, Request};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// let cache = Cache::new(program);
    /// let request = Request::new(square, [ArgSpec::ACTIVE]);
    /// for effort in [Effort::Quick, Effort::Full, Effort::Quick] {
    ///     cache.rule(&request, &Options { effort, ..Options::default() })?;
    /// }
    /// assert_eq!(cache.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> usize {
        self.known().len()
    }

    /// Whether it remembers none.
    ///
    /// ```
    /// # use brolga::{ArgSpec, Cache, Options, Request};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// let cache = Cache::new(program);
    /// assert!(cache.is_empty());
    /// cache.rule(&Request::new(square, [ArgSpec::ACTIVE]), &Options::default())?;
    /// assert!(!cache.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forget all rules. Those that are held live on.
    ///
    /// ```
    /// # use brolga::{ArgSpec, Cache, Options, Request};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// let cache = Cache::new(program);
    /// let request = Request::new(square, [ArgSpec::ACTIVE]);
    /// let held = cache.rule(&request, &Options::default())?;
    /// cache.clear();
    /// let made_anew = cache.rule(&request, &Options::default())?;
    /// assert!(!made_anew.is(&held));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&self) {
        self.known().clear();
    }
}
