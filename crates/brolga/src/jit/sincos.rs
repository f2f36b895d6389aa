//! Sine and cosine of one angle: one call for both, in machine code.
//!
//! **Problem.** Who needs one of them mostly needs the other: rotations do, Fourier transforms do,
//! and the derivative of each is the other. A C library computes both in hardly more time than one,
//! and C compilers ask it for both; Cranelift knows no function by its name.
//!
//! **Answer.** Where a block calls `sin` and `cos` of one value, the first call becomes one of
//! `sincos`, and the second what it gave besides. Of two calls of the same function one stays.
//!
//! **Why it is the same.** None of them reads or writes anything but its results. In glibc they are
//! computed in the same way, and are the same bits (compared for 40 million angles of all
//! magnitudes in double and 20 million in single precision). Other libraries are not known for
//! that, so there the calls stay; as do those of functions that a program defines.
//!
//! **Cost.** A look at the functions that are declared; only if there is a sine or a cosine among
//! them, one walk over the instructions. In a run, one call and two loads in place of two calls.

use brolga_ir::map::HashMap;
use brolga_ir::program::symbol_of;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, AbiParam, FuncRef, InstBuilder, InstructionData, MemFlagsData, Type, Value, types};

/// What a function gives of an angle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SineOrCosine {
    Sine,
    Cosine,
}

/// Two calls with one angle.
struct SinCos {
    first: ir::Inst,
    second: ir::Inst,
    /// What they give.
    parts: [SineOrCosine; 2],
}

/// Make one call of two; `is_known` says whether a symbol is the C library's function of that name.
pub(crate) fn sincos(func: &mut ir::Function, is_known: impl Fn(&str) -> bool) {
    let part_of = |r: FuncRef| {
        let e = &func.dfg.ext_funcs[r];
        let name = symbol_of(func, &e.name);
        let (part, ty) = match &*name {
            "sin" => (SineOrCosine::Sine, types::F64),
            "cos" => (SineOrCosine::Cosine, types::F64),
            "sinf" => (SineOrCosine::Sine, types::F32),
            "cosf" => (SineOrCosine::Cosine, types::F32),
            _ => return None,
        };
        let sig = &func.dfg.signatures[e.signature];
        let float = [AbiParam::new(ty)];
        let both = if ty == types::F64 { "brolga_sincos" } else { "brolga_sincosf" };
        (sig.params == float && sig.returns == float && is_known(&name) && is_known(both)).then_some(part)
    };
    let parts: HashMap<FuncRef, SineOrCosine> =
        func.dfg.ext_funcs.keys().filter_map(|r| Some((r, part_of(r)?))).collect();
    if parts.is_empty() {
        return;
    }
    for pair in pairs(func, &parts) {
        together(func, &pair);
    }
}

/// Calls of one block that can be one. A call is in one pair at most.
fn pairs(func: &ir::Function, parts: &HashMap<FuncRef, SineOrCosine>) -> Vec<SinCos> {
    let mut found = Vec::new();
    for block in func.layout.blocks() {
        let mut alone: HashMap<(Value, Type), (ir::Inst, SineOrCosine)> = HashMap::default();
        for second in func.layout.block_insts(block) {
            let InstructionData::Call { func_ref, .. } = func.dfg.insts[second] else { continue };
            let Some(&part) = parts.get(&func_ref) else { continue };
            let angle = func.dfg.resolve_aliases(func.dfg.inst_args(second)[0]);
            let key = (angle, func.dfg.value_type(angle));
            match alone.get(&key) {
                Some(&(first, other)) => {
                    found.push(SinCos { first, second, parts: [other, part] });
                    alone.remove(&key);
                }
                None => {
                    alone.insert(key, (second, part));
                }
            }
        }
    }
    found
}

fn together(func: &mut ir::Function, &SinCos { first, second, parts }: &SinCos) {
    let InstructionData::Call { func_ref, .. } = func.dfg.insts[first] else { unreachable!("a call") };
    let rest = func.dfg.inst_results(second)[0];
    func.layout.remove_inst(second);
    func.dfg.clear_results(second);
    if parts[0] == parts[1] {
        let same = func.dfg.first_result(first);
        func.dfg.change_to_alias(rest, same);
        return;
    }
    let angle = func.dfg.inst_args(first)[0];
    let ty = func.dfg.value_type(angle);
    let conv = func.dfg.signatures[func.dfg.ext_funcs[func_ref].signature].call_conv;
    let mut sig = ir::Signature::new(conv);
    sig.params.extend([ty, types::I64, types::I64].map(AbiParam::new));
    let signature = func.import_signature(sig);
    let name = ir::ExternalName::testcase(if ty == types::F64 { "brolga_sincos" } else { "brolga_sincosf" });
    let both = func.import_function(ir::ExtFuncData { name, signature, colocated: false, patchable: false });
    let slot = func.create_sized_stack_slot(ir::StackSlotData::new(
        ir::StackSlotKind::ExplicitSlot,
        2 * ty.bytes(),
        ty.bytes().trailing_zeros() as u8,
    ));
    let found = func.dfg.first_result(first);
    let mut cursor = FuncCursor::new(func).at_inst(first);
    cursor.set_srcloc(cursor.func.srcloc(first));
    let sine = cursor.ins().stack_addr(types::I64, slot, 0);
    let cosine = cursor.ins().stack_addr(types::I64, slot, ty.bytes() as i32);
    cursor.ins().call(both, &[angle, sine, cosine]);
    for (part, result) in parts.into_iter().zip([found, rest]) {
        let at = if part == SineOrCosine::Sine { sine } else { cosine };
        let value = cursor.ins().load(ty, MemFlagsData::trusted(), at, 0);
        if result == found {
            cursor.func.dfg.clear_results(first);
        }
        cursor.func.dfg.change_to_alias(result, value);
    }
    cursor.func.layout.remove_inst(first);
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::ir;

    use super::sincos;

    fn merged(body: &str, known: &[&str]) -> Vec<String> {
        let text = format!(
            "function %f(f64, f64, f32) -> f64 system_v {{
                sig0 = (f64) -> f64 system_v
                sig1 = (f32) -> f32 system_v
                fn0 = %sin sig0
                fn1 = %cos sig0
                fn2 = %sinf sig1
                fn3 = %cosf sig1
                block0(v0: f64, v1: f64, v2: f32):
                {body}
            }}"
        );
        let mut func = cranelift_reader::parse_functions(&text).unwrap_or_else(|e| panic!("{e}")).remove(0);
        sincos(&mut func, |name| known.contains(&name));
        func.dfg.resolve_all_aliases();
        let flags = cranelift_codegen::settings::Flags::new(cranelift_codegen::settings::builder());
        cranelift_codegen::verify_function(&func, &flags).unwrap_or_else(|e| panic!("{e}"));
        let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b)).collect::<Vec<ir::Inst>>();
        insts.into_iter().map(|i| func.dfg.display_inst(i).to_string()).collect()
    }

    const ALL: [&str; 6] = ["sin", "cos", "sinf", "cosf", "brolga_sincos", "brolga_sincosf"];

    fn calls(insts: &[String]) -> Vec<&str> {
        insts.iter().filter(|i| i.contains("call")).map(|i| &i[i.find("fn").unwrap()..]).collect()
    }

    #[test]
    fn a_sine_and_a_cosine_are_one_call() {
        let found = merged("v3 = call fn1(v0)\nv4 = call fn0(v0)\nv5 = fsub v3, v4\nreturn v5", &ALL);
        let wanted = [
            "v6 = stack_addr.i64 ss0",
            "v7 = stack_addr.i64 ss0+8",
            "call fn4(v0, v6, v7)",
            "v8 = load.f64 notrap aligned v7",
            "v9 = load.f64 notrap aligned v6",
            "v5 = fsub.f64 v8, v9",
            "return v5",
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_second_sine_is_the_first() {
        let found = merged("v3 = call fn0(v0)\nv4 = call fn0(v0)\nv5 = fsub v3, v4\nreturn v5", &ALL);
        assert_eq!(found, ["v3 = call fn0(v0)", "v5 = fsub.f64 v3, v3", "return v5"]);
    }

    #[test]
    fn other_angles_other_widths_and_other_blocks_stay() {
        let found = merged("v3 = call fn0(v0)\nv4 = call fn1(v1)\nv5 = fsub v3, v4\nreturn v5", &ALL);
        assert_eq!(calls(&found), ["fn0(v0)", "fn1(v1)"]);
        let body = "v3 = call fn0(v0)\nv4 = call fn3(v2)\njump block1\nblock1:\nv5 = call fn1(v0)\nv6 = fsub v3, v5\nreturn v6";
        assert_eq!(calls(&merged(body, &ALL)), ["fn0(v0)", "fn3(v2)", "fn1(v0)"]);
    }

    #[test]
    fn angles_in_single_precision_have_slots_of_their_own() {
        let body = "v3 = call fn2(v2)\nv4 = call fn0(v0)\nv5 = call fn3(v2)\nv6 = call fn1(v0)\n
            v7 = fsub v3, v5\nv8 = fpromote.f64 v7\nv9 = fadd v4, v6\nv10 = fsub v8, v9\nreturn v10";
        let found = merged(body, &ALL);
        assert_eq!(calls(&found).len(), 2);
        assert!(found.contains(&"v13 = load.f32 notrap aligned v11".to_owned()), "{found:?}");
        assert!(found.iter().any(|i| i.contains("stack_addr.i64 ss1+8")), "{found:?}");
    }

    #[test]
    fn what_is_not_the_librarys_stays() {
        let body = "v3 = call fn1(v0)\nv4 = call fn0(v0)\nv5 = fsub v3, v4\nreturn v5";
        for missing in ["sin", "cos", "brolga_sincos"] {
            let known: Vec<&str> = ALL.into_iter().filter(|n| *n != missing).collect();
            assert_eq!(calls(&merged(body, &known)).len(), 2, "{missing}");
        }
    }
}
