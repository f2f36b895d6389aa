//! Emscripten's imports: what it leaves to JavaScript and a computation may need.
//!
//! **Question.** A module that Emscripten has linked imports functions by which memory grows, large
//! blocks are copied, the time is asked for, and exceptions would be caught. What are they here?
//!
//! **Answer.** Shims, which translated code has in place of the imports. Its C library does not use
//! `memory.grow`: it asks the host to, in bytes, and copies what is longer than half a kilobyte by
//! a function of the host's. System calls answer what they answer where there is no file. A call
//! out of which an exception would be caught ([`invokes`]) is the call and nothing else. In a build
//! that was made small these imports are called `a.a` and `a.b`; then only the embedder can say
//! what they are ([`super::Imports::means`]).
//!
//! **Errors.** A function that is not here, or has another type, has no shim.
//!
//! **Cost.** A few instructions for each; a call of the host for the time, and where memory grows.

use brolga::cranelift_codegen::ir::condcodes::IntCC;
use brolga::cranelift_codegen::ir::{InstBuilder, Value, types};
use wasmparser::{FuncType, ValType};

use super::wasi::CLOCK;
use crate::function::env::Helper;
use crate::function::func::{Fx, call_host};
use crate::layout::PAGE;
use crate::provided::Shim;

const I32: ValType = ValType::I32;

/// Error numbers of Emscripten's C library, which are WASI's.
const NO_ENTRY: i64 = 44;
const NO_SYSTEM: i64 = 52;

/// The shim for `name`, if it is one of the functions here and has their type.
pub(super) fn shim(name: &str, ty: &FuncType) -> Option<Shim> {
    if name.starts_with("__syscall_") && ty.results() == [I32] {
        // What is asked of a file by its name finds none; what is asked of one that is open, or of
        // the system, is not there.
        let by_name = ["at", "stat64", "at64"].iter().any(|end| name.ends_with(end)) && name != "__syscall_fstat64";
        return Some(if by_name { |fx| refuse(fx, NO_ENTRY) } else { |fx| refuse(fx, NO_SYSTEM) });
    }
    let (params, results): (&[ValType], &[&[ValType]]) = match name {
        "emscripten_resize_heap" => (&[I32], &[&[I32]]),
        "emscripten_get_heap_max" => (&[], &[&[I32]]),
        "emscripten_notify_memory_growth" => (&[I32], &[&[]]),
        "emscripten_memcpy_big" | "emscripten_memcpy_js" | "_emscripten_memcpy_js" => (&[I32; 3], &[&[], &[I32]]),
        "emscripten_date_now" | "emscripten_get_now" => (&[], &[&[ValType::F64]]),
        "_emscripten_get_now_is_monotonic" => (&[], &[&[I32]]),
        _ => return None,
    };
    if ty.params() != params || !results.contains(&ty.results()) {
        return None;
    }
    Some(match name {
        "emscripten_resize_heap" => resize,
        "emscripten_get_heap_max" => |fx| {
            let most = fx.env.layout.memory_max[0].min(u64::from(u32::MAX) & !(PAGE - 1));
            let most = fx.b.ins().iconst(types::I32, most as i64);
            fx.b.ins().return_(&[most]);
        },
        "emscripten_notify_memory_growth" => |fx| {
            fx.b.ins().return_(&[]);
        },
        "emscripten_date_now" => |fx| time(fx, 0),
        "emscripten_get_now" => |fx| time(fx, 1),
        "_emscripten_get_now_is_monotonic" => |fx| {
            let yes = fx.b.ins().iconst(types::I32, 1);
            fx.b.ins().return_(&[yes]);
        },
        _ if ty.results().is_empty() => |fx| {
            copy(fx);
            fx.b.ins().return_(&[]);
        },
        _ => |fx| {
            let to = fx.stack[0];
            copy(fx);
            fx.b.ins().return_(&[to]);
        },
    })
}

/// Whether it is `invoke_…`: a call through the table, out of which exceptions and `longjmp` would
/// be caught. Where neither is thrown (throwing is an import, too, and nothing provides that) it is
/// the call and nothing else.
pub(super) fn invokes(name: &str, ty: &FuncType) -> bool {
    name.starts_with("invoke_") && ty.params().first() == Some(&I32)
}

/// Whether a function of that name makes memory grow.
pub(super) fn grows(name: &str) -> bool {
    name == "emscripten_resize_heap"
}

fn refuse(fx: &mut Fx<'_, '_, '_, '_>, error: i64) {
    let answer = fx.b.ins().iconst(types::I32, -error & 0xffff_ffff);
    fx.b.ins().return_(&[answer]);
}

/// Milliseconds that a clock shows.
fn time(fx: &mut Fx<'_, '_, '_, '_>, clock: i64) {
    let now = shown(fx, clock, 1e6);
    fx.b.ins().return_(&[now]);
}

/// What a clock shows, in units of so many nanoseconds.
fn shown(fx: &mut Fx<'_, '_, '_, '_>, clock: i64, unit: f64) -> Value {
    let clock = fx.b.ins().iconst(types::I32, clock);
    let now = call_host(fx, &CLOCK, &[clock])[0];
    let now = fx.b.ins().fcvt_from_uint(types::F64, now);
    let unit = fx.b.ins().f64const(unit);
    fx.b.ins().fdiv(now, unit)
}

/// Seconds that a clock shows that is never put back.
pub(crate) fn seconds(fx: &mut Fx<'_, '_, '_, '_>) -> Value {
    shown(fx, 1, 1e9)
}

fn copy(fx: &mut Fx<'_, '_, '_, '_>) {
    let (to, from, n) = (fx.stack[0], fx.stack[1], fx.stack[2]);
    let (d, s) = (fx.range(0, to, n), fx.range(0, from, n));
    let n = fx.wide(n);
    fx.call_c("memmove", types::I64, [d, s, n]);
}

/// Have at least so many bytes: whether there are.
fn resize(fx: &mut Fx<'_, '_, '_, '_>) {
    let wanted = fx.stack[0];
    let wanted = fx.wide(wanted);
    let size = fx.memory_size(0);
    let (more, done) = (fx.b.create_block(), fx.b.create_block());
    let answer = fx.b.append_block_param(done, types::I32);
    let one = fx.b.ins().iconst(types::I32, 1);
    let enough = fx.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, wanted, size);
    fx.b.ins().brif(enough, done, &[one.into()], more, &[]);
    fx.b.switch_to_block(more);
    let missing = fx.b.ins().isub(wanted, size);
    let missing = fx.b.ins().iadd_imm_s(missing, PAGE as i64 - 1);
    let pages = fx.b.ins().ushr_imm_u(missing, 16);
    let pages = fx.b.ins().ireduce(types::I32, pages);
    let old = fx.call_helper(Helper::MemoryGrow(0), &[pages])[0];
    let none = fx.b.ins().iconst(types::I32, i64::from(u32::MAX));
    let grown = fx.b.ins().icmp(IntCC::NotEqual, old, none);
    let grown = fx.b.ins().uextend(types::I32, grown);
    fx.b.ins().jump(done, &[grown.into()]);
    fx.b.switch_to_block(done);
    fx.b.ins().return_(&[answer]);
}
