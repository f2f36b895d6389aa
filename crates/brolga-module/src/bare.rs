//! Functions without a module: an [`ir::Function`] in, functions out.
//!
//! **Question.** A compiler has functions and no `Module`. What do calls in them mean for a
//! derivative?
//!
//! **Answer.** What a call means says the caller, call by call, in the manner of Cranelift's
//! [`Context::inline`](cranelift_codegen::Context::inline): [`CallRules`] is asked about each
//! function that a body calls. What comes out ([`derivative`]) names the functions that the input
//! named as the input did; its own functions, and functions of C that the input did not name, by
//! symbols ([`ExternalName::TestCase`]), which the caller links.
//!
//! ```
//! use brolga_module::bare::{CallRule, CallRules, derivative};
//! use brolga_module::{ParamActivity::Active, Spec};
//! use cranelift_codegen::{ir, settings};
//!
//! let text = "function u0:0(f64) -> f64 { fn0 = u0:7(f64) -> f64
//!     block0(v0: f64): v1 = call fn0(v0) v2 = fmul v1, v0 return v2 }";
//! # let isa = cranelift_native::builder()?.finish(settings::Flags::new(settings::builder()))?;
//! let func = cranelift_reader::parse_functions(text)?.remove(0);
//!
//! /// Function 7 of this frontend is C's sine.
//! struct Mine;
//! impl CallRules for Mine {
//!     fn rule(&mut self, _: &ir::Function, _: ir::Inst, _: ir::FuncRef, _: &[ir::Value]) -> CallRule<'_> {
//!         CallRule::Known("sin")
//!     }
//! }
//! let found = derivative(&func, &Spec::gradient([Active]), &mut Mine, &*isa)?;
//! assert_eq!(found.functions.len(), 1);
//! // The sine is called as before, the cosine is an import of its own.
//! let text = found.functions[0].func.to_string();
//! assert!(text.contains("u0:7") && text.contains("%cos"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Errors.** [`AdError::Usage`] for a function or a body that does not verify, or is called by
//! another signature; otherwise what [`AdModule::derivative`](crate::AdModule::derivative) refuses.
//!
//! **Cost.** Each body is verified and copied once, and one question is asked about each name. Each
//! call derives anew.

use std::borrow::Cow;
use std::collections::BTreeMap;

use brolga_ir::program::{functions_used, symbol_of};
use brolga_ir::{Options, Program};
use brolga_rules::UserRule;
use brolga_transform::embed::EmbeddedFunctions;
use cranelift_codegen::ir::{self, ExternalName, InstructionData, UserExternalName};
use cranelift_codegen::isa::TargetIsa;

use crate::{AdError, Spec};

/// What a call means for the derivative.
///
/// ```
/// # use brolga_module::{AdError, ParamActivity::Active, Spec, UserRule, bare::{CallRule, CallRules, derivative}};
/// # use cranelift_codegen::{ir, settings};
/// # let isa = cranelift_native::builder()?.finish(settings::Flags::new(settings::builder()))?;
/// # let text = "function u0:0(f64) -> f64 { fn0 = u0:7(f64) -> f64 block0(v0: f64): v1 = call fn0(v0) return v1 }";
/// # let calls_7 = cranelift_reader::parse_functions(text)?.remove(0);
/// /// All that is called is logistic.
/// struct Logistic;
/// impl CallRules for Logistic {
///     fn rule(&mut self, _: &ir::Function, _: ir::Inst, _: ir::FuncRef, _: &[ir::Value]) -> CallRule<'_> {
///         CallRule::Rule(UserRule::parse("x => z: z*(1 - z)").expect("it is a rule"))
///     }
/// }
/// let found = derivative(&calls_7, &Spec::gradient([Active]), &mut Logistic, &*isa)?;
/// let text = found.functions[0].func.to_string();
/// assert!(text.contains("u0:7") && text.contains("fsub")); // z is what is called, then 1 - z
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[allow(clippy::large_enum_variant, reason = "a body is handed over as Cranelift's `InlineCommand` does it")]
#[derive(Clone, Debug)]
pub enum CallRule<'a> {
    /// The call is of C's function of this name.
    Known(&'a str),
    /// The callee has this body, which is derived as well. It may be the caller's own.
    Body(Cow<'a, ir::Function>),
    /// The call is differentiated by this rule.
    Rule(UserRule),
    /// Nothing is known of it. The call is refused if a derivative depends on it.
    Unknown,
}

/// Says of calls what they mean.
///
/// ```
/// # use brolga_module::{AdError, ParamActivity::Active, Spec, UserRule, bare::{CallRule, CallRules, derivative}};
/// # use cranelift_codegen::{ir, settings};
/// # let isa = cranelift_native::builder()?.finish(settings::Flags::new(settings::builder()))?;
/// # let text = "function u0:0(f64) -> f64 { fn0 = u0:7(f64) -> f64 block0(v0: f64): v1 = call fn0(v0) return v1 }";
/// # let calls_7 = cranelift_reader::parse_functions(text)?.remove(0);
/// /// Nothing is known of what is called.
/// struct Nothing;
/// impl CallRules for Nothing {
///     fn rule(&mut self, _: &ir::Function, _: ir::Inst, _: ir::FuncRef, _: &[ir::Value]) -> CallRule<'_> {
///         CallRule::Unknown
///     }
/// }
/// let found = derivative(&calls_7, &Spec::gradient([Active]), &mut Nothing, &*isa);
/// let Err(AdError::Diagnostics(all)) = found else { panic!("it is refused") };
/// assert_eq!(all.0[0].code, "AD0150");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait CallRules {
    /// What a call means. This is asked of the first call of each function that `caller` declares
    /// under a name that was not asked of before: all calls of a name mean the same.
    ///
    /// ```
    /// # use brolga_module::{ParamActivity::Active, Spec, bare::{CallRule, CallRules, derivative}};
    /// # use cranelift_codegen::{ir, settings};
    /// # let isa = cranelift_native::builder()?.finish(settings::Flags::new(settings::builder()))?;
    /// # let text = "function u0:0(f64) -> f64 { fn0 = u0:7(f64) -> f64
    /// #     block0(v0: f64): v1 = call fn0(v0) v2 = call fn0(v1) return v2 }";
    /// # let calls_twice = cranelift_reader::parse_functions(text)?.remove(0);
    /// /// All that is called is C's sine, and questions are counted.
    /// struct Counted(u32);
    /// impl CallRules for Counted {
    ///     fn rule(&mut self, _: &ir::Function, _: ir::Inst, _: ir::FuncRef, _: &[ir::Value]) -> CallRule<'_> {
    ///         self.0 += 1;
    ///         CallRule::Known("sin")
    ///     }
    /// }
    /// let mut counted = Counted(0);
    /// derivative(&calls_twice, &Spec::gradient([Active]), &mut counted, &*isa)?;
    /// assert_eq!(counted.0, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn rule(&mut self, caller: &ir::Function, inst: ir::Inst, callee: ir::FuncRef, args: &[ir::Value]) -> CallRule<'_>;
}

/// The name of the function that is derived, in symbols of what comes out, and in errors.
const ROOT: &str = "function";

/// The derivative of a function. The first of the functions is the gradient or the tangent; of a
/// pair the first two are forward pass and pullback.
///
/// ```
/// # use brolga_module::{AdError, ParamActivity::Active, Spec, UserRule, bare::{CallRule, CallRules, derivative}};
/// # use cranelift_codegen::{ir, settings};
/// # let isa = cranelift_native::builder()?.finish(settings::Flags::new(settings::builder()))?;
/// # let text = "function u0:0(f64) -> f64 { fn0 = u0:7(f64) -> f64 block0(v0: f64): v1 = call fn0(v0) return v1 }";
/// # let calls_7 = cranelift_reader::parse_functions(text)?.remove(0);
/// # /// Nothing is known of what is called.
/// # struct Nothing;
/// # impl CallRules for Nothing {
/// #     fn rule(&mut self, _: &ir::Function, _: ir::Inst, _: ir::FuncRef, _: &[ir::Value]) -> CallRule<'_> {
/// #         CallRule::Unknown
/// #     }
/// # }
/// # let text = "function u0:0(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
/// # let square = cranelift_reader::parse_functions(text)?.remove(0);
/// let found = derivative(&square, &Spec::gradient([Active]), &mut Nothing, &*isa)?;
/// assert_eq!((found.functions.len(), found.signatures[0].params.len()), (1, 2)); // x and the seed
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`AdModule::derivative`](crate::AdModule::derivative); [`AdError::Usage`] if the function or
/// a body does not verify.
pub fn derivative(
    func: &ir::Function,
    spec: &Spec,
    rules: &mut impl CallRules,
    isa: &dyn TargetIsa,
) -> Result<EmbeddedFunctions, AdError> {
    let mut asked = CallMeanings { rules, isa, program: Program::new(), given: BTreeMap::new(), user: BTreeMap::new() };
    asked.define(ROOT, func)?;
    let CallMeanings { mut program, given, user, .. } = asked;
    brolga_transform::set_rules(&mut program, &user, true)?;
    let root = program.func(ROOT).expect("it is defined");
    let mut found = brolga_transform::embed::embed_as_named(&program, root, spec, &Options::full(), isa)?;
    for f in &mut found.functions {
        as_given(&mut f.func, &given);
    }
    Ok(found)
}

struct CallMeanings<'r, R> {
    rules: &'r mut R,
    isa: &'r dyn TargetIsa,
    program: Program,
    /// Names as they were given, by the symbols that stand for them.
    given: BTreeMap<String, UserExternalName>,
    user: BTreeMap<String, UserRule>,
}

impl<R: CallRules> CallMeanings<'_, R> {
    /// Define a function and the bodies that it calls.
    fn define(&mut self, symbol: &str, func: &ir::Function) -> Result<(), AdError> {
        cranelift_codegen::verify_function(func, self.isa)
            .map_err(|e| AdError::usage(format!("%{symbol} does not verify: {e}")))?;
        let mut body = func.clone();
        body.dfg.resolve_all_aliases();
        let mut bodies = Vec::new();
        for r in functions_used(func).iter() {
            let ExternalName::User(name) = &func.dfg.ext_funcs[r].name else { continue };
            let name = func.params.user_named_funcs()[*name].clone();
            let named = symbol_of(func, &func.dfg.ext_funcs[r].name);
            if let Some(known) = self.given.iter().find(|g| *g.1 == name).map(|g| g.0.clone()) {
                body.dfg.ext_funcs[r].name = ExternalName::testcase(known);
                continue;
            }
            let symbol = match self.asked(func, r) {
                CallRule::Known(known) => known.to_owned(),
                CallRule::Body(body) => {
                    bodies.push((named.clone(), body.into_owned()));
                    named
                }
                CallRule::Rule(rule) => {
                    self.user.insert(named.clone(), rule);
                    named
                }
                CallRule::Unknown => named,
            };
            body.dfg.ext_funcs[r].name = ExternalName::testcase(symbol.as_str());
            self.given.insert(symbol, name);
        }
        let found = self.program.define(symbol, body, |_| 0);
        found.map_err(|s| AdError::usage(format!("%{s} is called by another signature than its body has")))?;
        bodies.into_iter().try_for_each(|(symbol, body)| self.define(&symbol, &body))
    }

    fn asked(&mut self, func: &ir::Function, callee: ir::FuncRef) -> CallRule<'_> {
        let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
        let is_call = |inst: &ir::Inst| match func.dfg.insts[*inst] {
            InstructionData::Call { func_ref, .. } => func_ref == callee,
            _ => false,
        };
        let found = insts.into_iter().find(is_call);
        match found {
            Some(inst) => self.rules.rule(func, inst, callee, func.dfg.inst_args(inst)),
            // Its address is taken.
            None => CallRule::Unknown,
        }
    }
}

/// Let a function call others by the names that were given.
fn as_given(func: &mut ir::Function, given: &BTreeMap<String, UserExternalName>) {
    for r in func.dfg.ext_funcs.keys().collect::<Vec<_>>() {
        let symbol = symbol_of(func, &func.dfg.ext_funcs[r].name);
        if let Some(name) = given.get(&symbol) {
            let name = func.declare_imported_user_function(name.clone());
            func.dfg.ext_funcs[r].name = ExternalName::user(name);
        }
    }
}
