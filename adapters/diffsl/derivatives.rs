//! What the derivatives of a model's functions are, and how they are made.
//!
//! **Problem.** DiffSL's backends have a forward mode of their own. All functions in reverse mode,
//! and all with respect to parameters, are there under LLVM with Enzyme only.
//!
//! **Answer.** The Cranelift backend gives its functions to an [`AdModule`]. After the last of
//! them, [`CraneliftModule::define_derivatives`] asks for the sixteen that are missing, by the
//! names and with the activities that the other backend has. A function of the language (`sigmoid`,
//! `pow`) has a tangent in DiffSL, which is its rule. Four functions are compiled once more with
//! what depends on inputs inside (`rhs_full`), as parameters take part there.
//!
//! What is recorded where a loop's trip count is a number in a table is in memory of the thread's.
//!
//! **Copied** to `src/execution/cranelift/codegen/derivatives.rs` of a copy of diffsl by `cargo
//! xtask diffsl`.

use brolga_module::{DataActivity, Elem, ParamActivity, ParamRole, ParamSpec, Spec, TangentArg, UserRule};

use super::*;
use crate::execution::functions::{FUNCTIONS, INTERP1D_FUNCTIONS, TWO_ARG_FUNCTIONS};

/// A derivative: its name, the function's, and how each parameter takes part (`c`: constant, `d`:
/// with a shadow).
type Derivative = (&'static str, &'static str, &'static str);

/// In reverse mode.
const GRADIENTS: &[Derivative] = &[
    ("set_u0_rgrad", "set_u0", "ddcc"),
    ("mass_rgrad", "mass", "cdddcc"),
    ("rhs_rgrad", "rhs", "cdddcc"),
    ("reset_rgrad", "reset", "cdddcc"),
    ("calc_stop_rgrad", "calc_stop", "cdddcc"),
    ("calc_out_rgrad", "calc_out", "cdddcc"),
    ("set_inputs_rgrad", "set_inputs", "ddc"),
    ("calc_out_srgrad", "calc_out_full", "ccddcc"),
    ("rhs_srgrad", "rhs_full", "ccddcc"),
    ("reset_srgrad", "reset_full", "ccddcc"),
    ("calc_stop_srgrad", "calc_stop_full", "ccddcc"),
];

/// In forward mode, with respect to parameters.
const TANGENTS: &[Derivative] = &[
    ("rhs_sgrad", "rhs_full", "ccddcc"),
    ("reset_sgrad", "reset_full", "ccddcc"),
    ("calc_stop_sgrad", "calc_stop_full", "ccddcc"),
    ("set_u0_sgrad", "set_u0", "ddcc"),
    ("calc_out_sgrad", "calc_out_full", "ccddcc"),
];

/// As many bytes of address space as a thread's records may take.
const WORKSPACE_BYTES: usize = 64 << 20;

/// Where this thread's records are. Pages are taken as they are used.
pub(crate) extern "C" fn workspace() -> *mut u8 {
    thread_local! {
        static MEMORY: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; WORKSPACE_BYTES]);
    }
    MEMORY.with_borrow_mut(Vec::as_mut_ptr)
}

impl<M: Module> CraneliftModule<M> {
    /// Define the derivatives. Functions for several threads have none: their barriers would have
    /// to run backwards.
    pub(super) fn define_derivatives(&mut self, model: &DiscreteModel) -> Result<()> {
        if self.threaded {
            return Ok(());
        }
        self.compile_full("rhs", "rr", Some(model.rhs()), model, false)?;
        self.compile_full("calc_out", "out", model.out(), model, true)?;
        self.compile_full("calc_stop", "root", model.stop(), model, true)?;
        self.compile_full("reset", "reset", model.reset(), model, true)?;
        self.set_rules();
        for (list, reverse) in [(GRADIENTS, true), (TANGENTS, false)] {
            for derivative in list {
                self.define_derivative(derivative, reverse)?;
            }
        }
        Ok(())
    }

    /// What functions of the language mean for derivatives, and data that has none.
    fn set_rules(&mut self) {
        let tangent = |name: &str| CraneliftCodeGen::<M>::get_function_name(name, true);
        let mut module = self.module.lock().unwrap();
        for (functions, n) in [
            (FUNCTIONS.iter().map(|f| f.0).collect::<Vec<_>>(), 1),
            (TWO_ARG_FUNCTIONS.iter().map(|f| f.0).collect(), 2),
        ] {
            for name in functions {
                module.set_rule(name, UserRule::tangent(&tangent(name), n));
            }
        }
        for (name, ..) in INTERP1D_FUNCTIONS {
            let mut args: Vec<_> = (0..5).map(TangentArg::Primal).collect();
            args.push(TangentArg::Tangent(4));
            module.set_rule(name, UserRule::Tangent { symbol: tangent(name), args });
        }
        module.set_data(self.constants_id, DataActivity::Const);
        module.set_data(self.model_index_id, DataActivity::Const);
    }

    fn define_derivative(&mut self, &(name, of, activities): &Derivative, reverse: bool) -> Result<()> {
        let elem = if self.real_type == types::F32 { Elem::F32 } else { Elem::F64 };
        let with_shadow = if reverse { ParamActivity::DuplicatedOnly } else { ParamActivity::DualOnly };
        let mut module = self.module.lock().unwrap();
        let Some(FuncOrDataId::Func(id)) = module.get_name(of) else {
            return Err(anyhow!("{of} is not there"));
        };
        let parameters = &module.declarations().get_function_decl(id).signature.params;
        let parameters: Vec<ParamSpec> = parameters
            .iter()
            .zip(activities.chars())
            .map(|(p, activity)| {
                let spec = ParamSpec::from(if activity == 'd' { with_shadow } else { ParamActivity::Const });
                // As attributes of LLVM say there.
                if p.value_type == self.real_ptr_type { spec.of(elem).noalias() } else { spec }
            })
            .collect();
        let spec = if reverse { Spec::gradient(parameters) } else { Spec::tangent(parameters) };
        // Sparsity is found by NaN that goes in and comes out.
        let derived = module.derive(id, &spec.weak_zero()).map_err(|e| anyhow!("{name}: {e}"))?;
        if !derived.room.is_given() {
            module.define(&derived, &[name], Linkage::Export).map_err(|e| anyhow!("{name}: {e}"))?;
            return Ok(());
        }
        let inner = format!("{name}.recording");
        let inner = module.define(&derived, &[&inner], Linkage::Local).map_err(|e| anyhow!("{name}: {e}"))?[0];
        let roles = derived.signatures[0].params.clone();
        drop(module);
        self.define_with_workspace(name, inner, &roles)
    }

    /// A function without a workspace among its parameters: it uses the thread's.
    fn define_with_workspace(&mut self, name: &str, inner: FuncId, roles: &[ParamRole]) -> Result<()> {
        let mut module = self.module.lock().unwrap();
        let params = module.declarations().get_function_decl(inner).signature.params.clone();
        let is_given = |role: &ParamRole| !matches!(role, ParamRole::Workspace | ParamRole::WorkspaceBytes);
        let given = params.into_iter().zip(roles).filter(|p| is_given(p.1)).map(|p| p.0);
        self.ctx.func.signature.params = given.collect();
        self.ctx.func.signature.returns.clear();
        let mut sig = module.make_signature();
        sig.returns.push(AbiParam::new(types::I64));
        let workspace = module.declare_function("diffsl_workspace", Linkage::Import, &sig)?;
        let mut b = FunctionBuilder::new(&mut self.ctx.func, &mut self.builder_context);
        let workspace = module.declare_func_in_func(workspace, b.func);
        let inner = module.declare_func_in_func(inner, b.func);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        b.seal_block(block);
        let mut own = b.block_params(block).to_vec().into_iter();
        let call = b.ins().call(workspace, &[]);
        let address = b.inst_results(call)[0];
        let bytes = b.ins().iconst(types::I64, WORKSPACE_BYTES as i64);
        let args: Vec<Value> = roles
            .iter()
            .map(|role| match role {
                ParamRole::Workspace => address,
                ParamRole::WorkspaceBytes => bytes,
                _ => own.next().unwrap(),
            })
            .collect();
        let call = b.ins().call(inner, &args);
        // The only result: whether all of it fitted.
        let status = b.inst_results(call)[0];
        b.ins().trapnz(status, TrapCode::unwrap_user(1));
        b.ins().return_(&[]);
        b.finalize(module.target_config());
        drop(module);
        self.declare_function(name)?;
        Ok(())
    }

    /// One of the functions of the state, with what depends on inputs inside.
    fn compile_full(
        &mut self,
        name: &str,
        output: &str,
        tensor: Option<&Tensor>,
        model: &DiscreteModel,
        after_rhs: bool,
    ) -> Result<()> {
        let pointer = self.real_ptr_type;
        let types = [self.real_type, pointer, pointer, pointer, self.int_type, self.int_type];
        let names = ["t", "u", "data", output, "threadId", "threadDim"];
        {
            let mut codegen = CraneliftCodeGen::new(self, model, &names, &types);
            if let Some(tensor) = tensor {
                let before = [model.input_dep_defns(), model.time_dep_defns(), model.state_dep_defns()];
                let after = Some(model.state_dep_post_f_defns()).filter(|_| after_rhs);
                for defined in before.into_iter().chain(after).flatten() {
                    codegen.jit_compile_tensor(defined, None, false)?;
                }
                let place = *codegen.variables.get(output).unwrap();
                codegen.jit_compile_tensor(tensor, Some(place), false)?;
            }
            codegen.builder.ins().return_(&[]);
            let config = codegen.module.target_config();
            codegen.builder.finalize(config);
        }
        self.declare_function(&format!("{name}_full"))?;
        Ok(())
    }
}
