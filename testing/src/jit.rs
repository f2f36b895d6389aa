//! Functions that are compiled as they are, for the host: for tests of passes over CLIF.

use cranelift_codegen::ir;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable, Flags};
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, default_libcall_names};

/// The host, with Cranelift's optimisations.
pub fn host_isa() -> OwnedTargetIsa {
    let mut flags = settings::builder();
    for (name, value) in [("opt_level", "speed"), ("is_pic", "false"), ("use_colocated_libcalls", "false")] {
        flags.set(name, value).expect("a setting of Cranelift");
    }
    let host = cranelift_native::builder().expect("Cranelift knows the host");
    host.finish(Flags::new(flags)).expect("the settings fit the host")
}

/// A module's builder for the host with Cranelift's own flags, whose functions lie in one
/// reservation. Allocated one by one they may lie further apart than a relative call reaches.
pub fn host() -> JITBuilder {
    in_one_place(JITBuilder::new(default_libcall_names()).expect("Cranelift knows the host"))
}

/// Bytes of address space that a module's functions and data have. Tests keep many modules.
const RESERVED: usize = 64 << 20;

/// The same with flags of one's own.
pub fn in_one_place(mut builder: JITBuilder) -> JITBuilder {
    let arena = ArenaMemoryProvider::new_with_size(RESERVED).expect("address space");
    builder.memory_provider(Box::new(arena));
    builder
}

/// Functions compiled together, and where they are, in order.
pub fn compile(funcs: Vec<ir::Function>) -> (JITModule, Vec<*const u8>) {
    let mut module = JITModule::new(in_one_place(JITBuilder::with_isa(host_isa(), default_libcall_names())));
    let mut ids = Vec::new();
    for (i, func) in funcs.into_iter().enumerate() {
        let text = func.to_string();
        let id = module.declare_function(&format!("f{i}"), Linkage::Local, &func.signature).expect("a new name");
        let mut ctx = cranelift_codegen::Context::for_function(func);
        ctx.func.name = ir::UserFuncName::user(0, id.as_u32());
        module.define_function(id, &mut ctx).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        ids.push(id);
    }
    module.finalize_definitions().expect("memory for code");
    let found = ids.into_iter().map(|id| module.get_finalized_function(id)).collect();
    (module, found)
}
