//! Derivatives in a Cranelift module.
//!
//! **Question.** A frontend compiles functions with a [`Module`]. How does it get their
//! derivatives, as functions of the same module?
//!
//! **Answer.** [`AdModule`] wraps any [`Module`] (a `JITModule`, an `ObjectModule`, one of your
//! own), is one itself, and keeps the bodies and data that it is given. [`AdModule::derivative`]
//! puts the derivative of a function into the module, as a function like any other: with the
//! module's target, flags and calling convention. Nothing runs but what is in the module, C's math
//! functions and its `memset` and `memmove`.
//!
//! ```
//! use brolga_module::{ParamActivity, AdModule, Spec};
//! use cranelift_codegen::ir::{AbiParam, InstBuilder, types};
//! use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
//! use cranelift_jit::{JITBuilder, JITModule};
//! use cranelift_module::{Linkage, Module, default_libcall_names};
//!
//! let jit = JITModule::new(JITBuilder::new(default_libcall_names())?);
//! let mut module = AdModule::new(jit);
//!
//! // f(x, y) = x·x·y, as a frontend writes it.
//! let mut cx = module.make_context();
//! cx.func.signature.params.extend([AbiParam::new(types::F64); 2]);
//! cx.func.signature.returns.push(AbiParam::new(types::F64));
//! let mut scratch = FunctionBuilderContext::new();
//! let mut b = FunctionBuilder::new(&mut cx.func, &mut scratch);
//! let block = b.create_block();
//! b.append_block_params_for_function_params(block);
//! b.switch_to_block(block);
//! b.seal_all_blocks();
//! let (x, y) = (b.block_params(block)[0], b.block_params(block)[1]);
//! let square = b.ins().fmul(x, x);
//! let product = b.ins().fmul(square, y);
//! b.ins().return_(&[product]);
//! b.finalize(module.target_config());
//! let f = module.declare_function("f", Linkage::Export, &cx.func.signature)?;
//! module.define_function(f, &mut cx)?;
//!
//! // The gradient: the seed of the result comes last.
//! let spec = Spec::gradient([ParamActivity::Active; 2]).results([brolga_module::ReturnActivity::ActiveOnly]);
//! let gradient = module.derivative(f, &spec)?;
//! module.finalize_definitions()?;
//! let code = module.get_finalized_function(gradient);
//! # #[cfg(target_arch = "x86_64")] {
//! #[repr(C)]
//! #[derive(PartialEq, Debug)]
//! struct Cotangents(f64, f64);
//! let gradient: extern "C" fn(f64, f64, f64) -> Cotangents = unsafe { std::mem::transmute(code) };
//! assert_eq!(gradient(3.0, 5.0, 1.0), Cotangents(30.0, 9.0));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What a derivative looks like is a [`Spec`]: a [`ParamActivity`] for each parameter, a
//! [`ReturnActivity`] for each result. [`AdModule::signature`] says afterwards which parameter is
//! what. The guide is `docs/EMBEDDING.md` of the repository, the example of a whole frontend
//! `examples/formula` of this crate.
//!
//! `recorded` has what a module has been given as a program, `link` puts derived functions into the
//! module, and [`bare`] serves frontends without a module.
//!
//! **Errors.** [`AdError`]: for programs that cannot be differentiated as asked, for requests that
//! make no sense, and for what the module refuses.
//!
//! **Cost.** A copy of each body that is defined. A derivative is derived and compiled when it is
//! asked for first, and found when it is asked for again, unless rules or activities of data have
//! been set meanwhile.

pub mod bare;
mod error;
mod link;
mod recorded;

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use cranelift_codegen::{Context, ir, isa};
use cranelift_control::ControlPlane;
use cranelift_module::{
    DataDescription, DataId, FuncId, FuncOrDataId, Linkage, Module, ModuleDeclarations, ModuleReloc, ModuleResult,
};

pub use brolga_ir::lower::integer_flags;
pub use brolga_ir::spec::{Derivative, FloatCount, ParamActivity, ParamSpec, ReturnActivity, Spec};
pub use brolga_ir::{Diagnostic, Diagnostics, Effort, Elem, FloatOrder, Inline, MemoryMode, Options, Untracked};
pub use brolga_rules::user::{RuleError, TangentArg, UserRule, parse_rules};
pub use brolga_transform::embed::{
    DerivedSignature, EmbeddedFunction, EmbeddedFunctions, HEADER, LACKING, ParamRole, ResultRole, Room, StructLayout,
    c_type, embed,
};
pub use cranelift_codegen;
pub use cranelift_module;
pub use error::AdError;
pub use link::is_function_of_c;
pub use recorded::DataActivity;

use recorded::{ModuleDerivative, RecordedModule};

/// The programs of docs/EMBEDDING.md, as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/EMBEDDING.md")]
pub struct Guide;

/// The program of the design page, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/design/embedding.md")]
pub struct Design;

/// The program of docs/USER-RULES.md, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/USER-RULES.md")]
pub struct UserRules;

/// A module that can be asked for derivatives. See the crate's documentation.
///
/// All that [`Module`] has goes through to the inner module; what else that has is there by
/// [`Deref`].
///
/// ```
/// # use brolga_module::{AdError, AdModule, DataActivity, ParamActivity::Active, Room, Spec};
/// # use cranelift_jit::{JITBuilder, JITModule};
/// # use cranelift_module::{Linkage, Module, default_libcall_names};
/// # let jit = || JITBuilder::new(default_libcall_names()).map(JITModule::new);
/// let mut module = AdModule::new(jit()?);
/// # let mut cx = module.make_context();
/// # let text = "function %f(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
/// # cx.func = cranelift_reader::parse_functions(text)?.remove(0);
/// # cx.func.signature.call_conv = module.target_config().default_call_conv;
/// let f = module.declare_function("f", Linkage::Export, &cx.func.signature)?;
/// module.define_function(f, &mut cx)?;
/// // f(x) = x², its value and its slope.
/// let gradient = module.derivative(f, &Spec::gradient([Active]).in_struct())?;
/// module.finalize_definitions()?;
/// let code = module.get_finalized_function(gradient);
/// // SAFETY: (x, the seed, a struct of value and slope) are the parameters.
/// let gradient: extern "C" fn(f64, f64, *mut [f64; 2]) = unsafe { std::mem::transmute(code) };
/// let mut found = [0.0; 2];
/// gradient(3.0, 1.0, &mut found);
/// assert_eq!(found, [9.0, 6.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AdModule<M> {
    inner: M,
    recorded: RecordedModule,
    options: Options,
    derived: HashMap<(FuncId, Spec), Vec<FuncId>>,
    /// What frees blocks of a record, by halves of pairs.
    releases: HashMap<FuncId, FuncId>,
    shared: link::SharedFunctions,
}

impl<M: Module> AdModule<M> {
    /// A module without functions that are to be derived yet. What `inner` has been given before is
    /// not known here.
    ///
    /// ```
    /// # use brolga_module::{AdError, AdModule, DataActivity, ParamActivity::Active, Room, Spec};
    /// # use cranelift_jit::{JITBuilder, JITModule};
    /// # use cranelift_module::{Linkage, Module, default_libcall_names};
    /// # let jit = || JITBuilder::new(default_libcall_names()).map(JITModule::new);
    /// let mut jit = jit()?;
    /// let before = jit.declare_anonymous_function(&jit.make_signature())?;
    /// // What is there before is declared, but its body is not known.
    /// let module = AdModule::new(jit);
    /// assert!(module.derive(before, &Spec::gradient([Active; 0])).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(inner: M) -> Self {
        Self::with_options(inner, Options::full())
    }

    /// The same, with options of derivation. Effort, inlining, the order of floats, whether memory
    /// is restored, and operations on bits that are not tracked count; what a [`Spec`] says is
    /// taken from there, and debug runs are refused (AD0174).
    ///
    /// ```
    /// # use brolga_module::{AdModule, MemoryMode, Options};
    /// # fn wrapped<M: cranelift_module::Module>(module: M) -> AdModule<M> {
    /// // Memory is put back as it was before a call.
    /// AdModule::with_options(module, Options { memory: MemoryMode::Restore, ..Options::full() })
    /// # }
    /// ```
    pub fn with_options(inner: M, options: Options) -> Self {
        let (derived, releases) = (HashMap::new(), HashMap::new());
        Self {
            inner,
            recorded: RecordedModule::default(),
            options,
            derived,
            releases,
            shared: link::SharedFunctions::default(),
        }
    }

    /// The inner module, with all that was defined.
    ///
    /// ```
    /// # use brolga_module::{AdError, AdModule, DataActivity, ParamActivity::Active, Room, Spec};
    /// # use cranelift_jit::{JITBuilder, JITModule};
    /// # use cranelift_module::{Linkage, Module, default_libcall_names};
    /// # let jit = || JITBuilder::new(default_libcall_names()).map(JITModule::new);
    /// # let mut module = AdModule::new(jit()?);
    /// # let mut cx = module.make_context();
    /// # let text = "function %f(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # cx.func = cranelift_reader::parse_functions(text)?.remove(0);
    /// # cx.func.signature.call_conv = module.target_config().default_call_conv;
    /// # let f = module.declare_function("f", Linkage::Export, &cx.func.signature)?;
    /// # module.define_function(f, &mut cx)?;
    /// module.derivative(f, &Spec::gradient([Active]))?;
    /// let jit: JITModule = module.into_inner();
    /// assert!(jit.get_name("f").is_some() && jit.get_name("f__gradient").is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_inner(self) -> M {
        self.inner
    }

    /// Say how a data object takes part. A read-only object is constant without being said so; a
    /// writable one that a derivative reaches has to be [given](DataActivity) an activity, which
    /// counts for derivatives that are asked for from now on.
    ///
    /// ```
    /// # use brolga_module::{AdModule, DataActivity};
    /// # use cranelift_module::{DataDescription, DataId, Linkage, Module, ModuleResult};
    /// # fn data<M: Module>(module: &mut AdModule<M>, state: DataId, log: DataId) -> ModuleResult<()> {
    /// // Of the state the shadow is an object as large as it, of zeros; the log has none.
    /// let shadow = module.declare_data("state_shadow", Linkage::Export, true, false)?;
    /// let mut zeros = DataDescription::new();
    /// zeros.define_zeroinit(8);
    /// module.define_data(shadow, &zeros)?;
    /// module.set_data(state, DataActivity::Shadow(shadow));
    /// module.set_data(log, DataActivity::Const);
    /// # Ok(()) }
    /// ```
    pub fn set_data(&mut self, data: DataId, activity: DataActivity) {
        self.recorded.activity(data, activity);
        self.derived.clear();
    }

    /// Say which line of the user's text a source location of the frontend's is, or zero. Errors
    /// name the lines of instructions then.
    ///
    /// ```
    /// # use brolga_module::AdModule;
    /// # fn lines<M: cranelift_module::Module>(module: &mut AdModule<M>) {
    /// // The frontend has set line numbers as locations.
    /// module.set_lines(|location| if location.is_default() { 0 } else { location.bits() });
    /// # }
    /// ```
    pub fn set_lines(&mut self, line: impl Fn(ir::SourceLoc) -> u32 + Send + Sync + 'static) {
        self.recorded.lines(Box::new(line));
    }

    /// Say by which rule calls of the function of this name are differentiated, whether it is
    /// imported or defined here. The rule counts for derivatives that are asked for from now on.
    ///
    /// ```
    /// # use brolga_module::{AdModule, UserRule};
    /// # fn rules<M: cranelift_module::Module>(module: &mut AdModule<M>) -> Result<(), brolga_module::RuleError> {
    /// module.set_rule("sigmoid", UserRule::parse("x => z: z*(1 - z)")?);
    /// module.set_rule("log_event", UserRule::Inactive);
    /// // A function (x, dx) that computes the tangent of another.
    /// module.set_rule("my_sin", UserRule::tangent("my_sin__tangent", 1));
    /// # Ok(()) }
    /// ```
    pub fn set_rule(&mut self, symbol: &str, rule: UserRule) {
        self.recorded.rule(symbol, rule);
        self.derived.clear();
    }

    /// The derivative of a function, defined in the module under a name of its own
    /// (`NAME__gradient`, `NAME__tangent`; with another spec `NAME__gradient_2`) that is local to
    /// it. The same derivative is made once. Where the module has been finished, finish it again.
    ///
    /// The function may be a derivative itself, or call derivatives:
    ///
    /// ```
    /// # use brolga_module::{AdError, AdModule, ParamActivity::{Active, Dual}, ReturnActivity, Spec};
    /// # use cranelift_module::{FuncId, Module};
    /// # fn second<M: Module>(module: &mut AdModule<M>, f: FuncId) -> Result<FuncId, AdError> {
    /// // f(x) -> y. Its gradient alone: (x, seed) -> x̄. Along a direction: (x, ẋ, seed, its tangent)
    /// // -> (x̄, the tangent of x̄), which is f″(x)·ẋ where the seed is one and its tangent zero.
    /// let gradient = module.derivative(f, &Spec::gradient([Active]).results([ReturnActivity::ActiveOnly]))?;
    /// let second = module.derivative(gradient, &Spec::tangent([Dual, Dual]))?;
    /// # Ok(second) }
    /// ```
    ///
    /// # Errors
    /// Where the function cannot be differentiated as asked: see [`AdError`]. For two functions ask
    /// for [`AdModule::pair`].
    pub fn derivative(&mut self, func: FuncId, spec: &Spec) -> Result<FuncId, AdError> {
        if spec.derivative == Derivative::Pair {
            return Err(AdError::usage("a forward pass and a pullback are two functions: ask for `pair`"));
        }
        Ok(self.local(func, spec)?[0])
    }

    /// A forward pass and a pullback, `NAME__forward` and `NAME__pullback`, and where they keep
    /// blocks of the heap `NAME__release`, which [`AdModule::release`] finds.
    ///
    /// ```
    /// # use brolga_module::{AdError, AdModule, ParamActivity::Active, Spec};
    /// # use cranelift_module::{FuncId, Module};
    /// # fn halves<M: Module>(module: &mut AdModule<M>, f: FuncId) -> Result<(), AdError> {
    /// // double f(double)
    /// let (forward, pullback) = module.pair(f, &Spec::pair([Active]))?;
    /// let prototype = |id| module.signature(id).expect("it is derived").prototype("half");
    /// println!("{}\n{}", prototype(forward), prototype(pullback));
    /// println!("workspace: {:?}", module.room(forward));
    /// if let Some(release) = module.release(pullback) {
    ///     println!("{}", prototype(release));
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`AdModule::derivative`].
    pub fn pair(&mut self, func: FuncId, spec: &Spec) -> Result<(FuncId, FuncId), AdError> {
        if spec.derivative != Derivative::Pair {
            return Err(AdError::usage("that is one function: ask for `derivative`, or for `Spec::pair`"));
        }
        let ids = self.local(func, spec)?;
        Ok((ids[0], ids[1]))
    }

    fn local(&mut self, func: FuncId, spec: &Spec) -> Result<Vec<FuncId>, AdError> {
        if let Some(ids) = self.derived.get(&(func, spec.clone())) {
            return Ok(ids.clone());
        }
        let embedded = self.derive(func, spec)?;
        let base = self.declarations().get_function_decl(func).linkage_name(func).into_owned();
        let endings: &[&str] = match spec.derivative {
            Derivative::Gradient => &["gradient"],
            Derivative::Tangent => &["tangent"],
            Derivative::Pair => &["forward", "pullback", "release"],
        };
        let endings = &endings[..embedded.signatures.len()];
        // Another spec has another name.
        let free = |suffix: &str| endings.iter().all(|e| self.get_name(&format!("{base}__{e}{suffix}")).is_none());
        let suffixes = (1..).map(|n| if n == 1 { String::new() } else { format!("_{n}") });
        let suffix = suffixes.into_iter().find(|s| free(s)).expect("some number is free");
        let names: Vec<String> = endings.iter().map(|e| format!("{base}__{e}{suffix}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let ids = self.define(&embedded, &names, Linkage::Local)?;
        self.derived.insert((func, spec.clone()), ids.clone());
        Ok(ids)
    }

    /// Derive without defining anything: to look at signatures and functions first.
    ///
    /// ```
    /// # use brolga_module::{AdError, AdModule, DataActivity, ParamActivity::Active, Room, Spec};
    /// # use cranelift_jit::{JITBuilder, JITModule};
    /// # use cranelift_module::{Linkage, Module, default_libcall_names};
    /// # let jit = || JITBuilder::new(default_libcall_names()).map(JITModule::new);
    /// # let mut module = AdModule::new(jit()?);
    /// # let mut cx = module.make_context();
    /// # let text = "function %f(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # cx.func = cranelift_reader::parse_functions(text)?.remove(0);
    /// # cx.func.signature.call_conv = module.target_config().default_call_conv;
    /// # let f = module.declare_function("f", Linkage::Export, &cx.func.signature)?;
    /// # module.define_function(f, &mut cx)?;
    /// let derived = module.derive(f, &Spec::gradient([Active]))?;
    /// assert_eq!(derived.room, Room::Nothing);
    /// assert!(module.get_name("f__gradient").is_none()); // nothing is defined yet
    /// let two = module.derive(f, &Spec::gradient([Active, Active]));
    /// assert!(two.is_err()); // it has one parameter
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Where the function cannot be differentiated as asked: see [`AdError`].
    pub fn derive(&self, func: FuncId, spec: &Spec) -> Result<EmbeddedFunctions, AdError> {
        if func.as_u32() as usize >= self.declarations().get_functions().count() {
            return Err(AdError::usage(format!("{func} is no function of this module: give one that it has declared")));
        }
        let isa = self.inner.isa();
        let (program, key, in_workspace) =
            self.recorded.program(func, self.inner.declarations(), (&self.options, isa))?;
        if in_workspace
            && let Some(i) = self.signature(func).and_then(|s| s.param(ParamRole::Workspace))
            && spec.params.get(i).is_some_and(|p| p.activity == ParamActivity::Const)
        {
            return Err(AdError::usage(format!(
                "parameter {i} of %{} is its workspace, where floats lie: write Duplicated, or Dual, and give a \
                 shadow of zeros",
                program.funcs[key].symbol
            )));
        }
        let found = brolga_transform::embed::embed_as_named(&program, key, spec, &self.options, isa);
        Ok(found.map_err(|d| self.recorded.of_callees(d, self.inner.declarations()))?)
    }

    /// The function that frees the blocks of the heap that a pair keeps in its record, by a half of
    /// the pair: of the address of the workspace, to be called once, when no pullback is called any
    /// more. There is none where the pair keeps no blocks. A forward pass whose status is not zero
    /// has freed them.
    ///
    /// ```
    /// # use brolga_module::{AdError, AdModule, DataActivity, ParamActivity::Active, Room, Spec};
    /// # use cranelift_jit::{JITBuilder, JITModule};
    /// # use cranelift_module::{Linkage, Module, default_libcall_names};
    /// # let jit = || JITBuilder::new(default_libcall_names()).map(JITModule::new);
    /// # let mut module = AdModule::new(jit()?);
    /// # let mut cx = module.make_context();
    /// # let text = "function %f(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # cx.func = cranelift_reader::parse_functions(text)?.remove(0);
    /// # cx.func.signature.call_conv = module.target_config().default_call_conv;
    /// # let f = module.declare_function("f", Linkage::Export, &cx.func.signature)?;
    /// # module.define_function(f, &mut cx)?;
    /// let (forward, pullback) = module.pair(f, &Spec::pair([Active]))?;
    /// // A square keeps no blocks of the heap.
    /// assert!(module.release(forward).is_none() && module.release(pullback).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn release(&self, half: FuncId) -> Option<FuncId> {
        self.releases.get(&half).copied()
    }

    /// Define what was derived, under these names: one for each root. Functions of such names may
    /// have been declared before, with these signatures.
    ///
    /// ```
    /// # use brolga_module::{AdModule, ParamActivity::Active, Spec};
    /// # use cranelift_codegen::settings::{self, Flags};
    /// # use cranelift_module::{Linkage, Module, default_libcall_names};
    /// # use cranelift_object::{ObjectBuilder, ObjectModule};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let isa = cranelift_native::builder()?.finish(Flags::new(settings::builder()))?;
    /// let mut module = AdModule::new(ObjectModule::new(ObjectBuilder::new(isa, "f", default_libcall_names())?));
    /// let mut cx = module.make_context();
    /// let text = "function %f(f64) -> f64 {\nblock0(v0: f64):\n v1 = fmul v0, v0\n return v1\n}";
    /// cx.func = cranelift_reader::parse_functions(text)?.remove(0);
    /// cx.func.signature.call_conv = module.target_config().default_call_conv;
    /// let f = module.declare_function("f", Linkage::Export, &cx.func.signature)?;
    /// module.define_function(f, &mut cx)?;
    ///
    /// let derived = module.derive(f, &Spec::gradient([Active]).in_struct())?;
    /// let header = derived.signatures[0].prototype("slope_of_f");
    /// assert!(header.ends_with("void slope_of_f(double p0, double seed0, struct slope_of_f_results *results);"));
    /// module.define(&derived, &["slope_of_f"], Linkage::Export)?;
    /// let _object: Vec<u8> = module.into_inner().finish().emit()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Where a name is taken, data has no shadow, or the module does not compile a function.
    pub fn define(
        &mut self,
        embedded: &EmbeddedFunctions,
        names: &[&str],
        linkage: Linkage,
    ) -> Result<Vec<FuncId>, AdError> {
        let ids = link::define(&mut self.inner, &self.recorded, &mut self.shared, embedded, (names, linkage))?;
        let of = link::function_named(&self.inner, &embedded.program.funcs[embedded.func].symbol);
        let data = self.recorded.activities().clone();
        let shadowed = embedded.shadows.iter().map(|s| &embedded.program.data[s.0].symbol);
        let shadowed: Vec<DataId> = shadowed.filter_map(|s| link::data(&self.inner, s)).collect();
        for (id, signature) in ids.iter().zip(&embedded.signatures) {
            let (spec, signature, room) = (embedded.spec.clone(), signature.clone(), embedded.room);
            let (data, shadowed) = (data.clone(), shadowed.clone());
            self.recorded.derivative(*id, ModuleDerivative { of, spec, signature, room, data, shadowed });
        }
        if let [forward, pullback, release] = ids[..] {
            self.releases.extend([(forward, release), (pullback, release)]);
        }
        Ok(ids)
    }

    /// How a derivative is called that is defined here.
    ///
    /// ```
    /// # use brolga_module::{AdError, AdModule, DataActivity, ParamActivity::Active, Room, Spec};
    /// # use cranelift_jit::{JITBuilder, JITModule};
    /// # use cranelift_module::{Linkage, Module, default_libcall_names};
    /// # let jit = || JITBuilder::new(default_libcall_names()).map(JITModule::new);
    /// # let mut module = AdModule::new(jit()?);
    /// # let mut cx = module.make_context();
    /// # let text = "function %f(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # cx.func = cranelift_reader::parse_functions(text)?.remove(0);
    /// # cx.func.signature.call_conv = module.target_config().default_call_conv;
    /// # let f = module.declare_function("f", Linkage::Export, &cx.func.signature)?;
    /// # module.define_function(f, &mut cx)?;
    /// let gradient = module.derivative(f, &Spec::gradient([Active]))?;
    /// assert_eq!(module.signature(gradient).map(|s| s.params.len()), Some(2)); // x and the seed
    /// assert!(module.signature(f).is_none()); // it is no derivative
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn signature(&self, derivative: FuncId) -> Option<&DerivedSignature> {
        self.recorded.derived(derivative).map(|d| &d.signature)
    }

    /// The workspace that a derivative needs that is defined here.
    ///
    /// ```
    /// # use brolga_module::{AdError, AdModule, DataActivity, ParamActivity::Active, Room, Spec};
    /// # use cranelift_jit::{JITBuilder, JITModule};
    /// # use cranelift_module::{Linkage, Module, default_libcall_names};
    /// # let jit = || JITBuilder::new(default_libcall_names()).map(JITModule::new);
    /// # let mut module = AdModule::new(jit()?);
    /// # let mut cx = module.make_context();
    /// # let text = "function %f(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # cx.func = cranelift_reader::parse_functions(text)?.remove(0);
    /// # cx.func.signature.call_conv = module.target_config().default_call_conv;
    /// # let f = module.declare_function("f", Linkage::Export, &cx.func.signature)?;
    /// # module.define_function(f, &mut cx)?;
    /// let gradient = module.derivative(f, &Spec::gradient([Active]))?;
    /// assert_eq!((module.room(gradient), module.room(f)), (Some(Room::Nothing), None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn room(&self, derivative: FuncId) -> Option<Room> {
        self.recorded.derived(derivative).map(|d| d.room)
    }
}

impl<M> Deref for AdModule<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.inner
    }
}

impl<M> DerefMut for AdModule<M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.inner
    }
}

impl<M: Module> Module for AdModule<M> {
    fn isa(&self) -> &dyn isa::TargetIsa {
        self.inner.isa()
    }

    fn declarations(&self) -> &ModuleDeclarations {
        self.inner.declarations()
    }

    fn get_name(&self, name: &str) -> Option<FuncOrDataId> {
        self.inner.get_name(name)
    }

    fn target_config(&self) -> isa::TargetFrontendConfig {
        self.inner.target_config()
    }

    fn make_context(&self) -> Context {
        self.inner.make_context()
    }

    fn clear_context(&self, ctx: &mut Context) {
        self.inner.clear_context(ctx);
    }

    fn make_signature(&self) -> ir::Signature {
        self.inner.make_signature()
    }

    fn clear_signature(&self, sig: &mut ir::Signature) {
        self.inner.clear_signature(sig);
    }

    fn declare_function(&mut self, name: &str, linkage: Linkage, signature: &ir::Signature) -> ModuleResult<FuncId> {
        self.inner.declare_function(name, linkage, signature)
    }

    fn declare_anonymous_function(&mut self, signature: &ir::Signature) -> ModuleResult<FuncId> {
        self.inner.declare_anonymous_function(signature)
    }

    fn declare_data(&mut self, name: &str, linkage: Linkage, writable: bool, tls: bool) -> ModuleResult<DataId> {
        self.inner.declare_data(name, linkage, writable, tls)
    }

    fn declare_anonymous_data(&mut self, writable: bool, tls: bool) -> ModuleResult<DataId> {
        self.inner.declare_anonymous_data(writable, tls)
    }

    fn declare_func_in_func(&mut self, func: FuncId, in_func: &mut ir::Function) -> ir::FuncRef {
        self.inner.declare_func_in_func(func, in_func)
    }

    fn declare_data_in_func(&self, data: DataId, func: &mut ir::Function) -> ir::GlobalValue {
        self.inner.declare_data_in_func(data, func)
    }

    fn declare_func_in_data(&self, func: FuncId, data: &mut DataDescription) -> ir::FuncRef {
        self.inner.declare_func_in_data(func, data)
    }

    fn declare_data_in_data(&self, data_id: DataId, data: &mut DataDescription) -> ir::GlobalValue {
        self.inner.declare_data_in_data(data_id, data)
    }

    fn define_function(&mut self, func: FuncId, ctx: &mut Context) -> ModuleResult<()> {
        // The inner module leaves something else in the context.
        let body = ctx.func.clone();
        self.inner.define_function(func, ctx)?;
        self.recorded.function(func, body);
        Ok(())
    }

    fn define_function_with_control_plane(
        &mut self,
        func: FuncId,
        ctx: &mut Context,
        ctrl_plane: &mut ControlPlane,
    ) -> ModuleResult<()> {
        let body = ctx.func.clone();
        self.inner.define_function_with_control_plane(func, ctx, ctrl_plane)?;
        self.recorded.function(func, body);
        Ok(())
    }

    fn define_function_bytes(
        &mut self,
        func_id: FuncId,
        alignment: u64,
        bytes: &[u8],
        relocs: &[ModuleReloc],
    ) -> ModuleResult<()> {
        self.inner.define_function_bytes(func_id, alignment, bytes, relocs)?;
        self.recorded.machine_code(func_id);
        Ok(())
    }

    fn define_data(&mut self, data_id: DataId, data: &DataDescription) -> ModuleResult<()> {
        self.inner.define_data(data_id, data)?;
        self.recorded.data(data_id, data);
        Ok(())
    }
}
