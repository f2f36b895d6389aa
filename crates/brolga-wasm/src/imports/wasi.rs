//! WASI preview 1, as far as it is harmless: what a C library calls when a program starts, prints, asks the time or exits.
//!
//! There are no files, arguments or environment variables. Standard output and error go where the instance sends them
//! ([`crate::Output`]), standard input is at its end. What a function writes to memory it writes by CLIF instructions, so the
//! pass sees floats being overwritten; the host only computes the numbers.

use brolga::cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use wasmparser::{FuncType, ValType};

use super::{HostFunc, Shim};
use crate::error::trap;
use crate::host;
use crate::translate::{Fx, call_host, little};

/// Error numbers of WASI.
mod errno {
    pub const SUCCESS: i64 = 0;
    pub const BADF: i64 = 8;
    pub const SPIPE: i64 = 70;
}

static WRITE: HostFunc = HostFunc {
    symbol: "host.fd_write",
    params: &[types::I32, types::I32, types::I32],
    result: Some(types::I64),
    address: || host::fd_write as *const () as usize,
};
static EXIT: HostFunc = HostFunc {
    symbol: "host.proc_exit",
    params: &[types::I32],
    result: None,
    address: || host::proc_exit as *const () as usize,
};
static CLOCK: HostFunc = HostFunc {
    symbol: "host.clock_time_get",
    params: &[types::I32],
    result: Some(types::I64),
    address: || host::clock as *const () as usize,
};
static RANDOM: HostFunc = HostFunc {
    symbol: "host.random_get",
    params: &[types::I64, types::I64],
    result: None,
    address: || host::random as *const () as usize,
};

/// Functions without pointers.
pub(super) const WITHOUT_MEMORY: [&str; 4] = ["proc_exit", "sched_yield", "fd_close", "fd_fdstat_set_flags"];

const I32: ValType = ValType::I32;
const I64: ValType = ValType::I64;

/// The shim for a function of WASI, if we have it and the type is right.
pub(super) fn shim(module: &str, name: &str, ty: &FuncType) -> Option<Shim> {
    if module != "wasi_snapshot_preview1" && module != "wasi_unstable" {
        return None;
    }
    let (params, shim): (&[ValType], Shim) = match name {
        "proc_exit" => (&[I32], |fx| {
            let code = fx.stack[0];
            call_host(fx, &EXIT, &[code]);
            fx.b.ins().trap(trap::EXIT);
        }),
        "fd_write" => (&[I32; 4], |fx| {
            let (fd, iovs, n, out) = (fx.stack[0], fx.stack[1], fx.stack[2], fx.stack[3]);
            let answer = call_host(fx, &WRITE, &[fd, iovs, n])[0];
            // The count below, the error above.
            let count = fx.b.ins().ireduce(types::I32, answer);
            let error = fx.b.ins().ushr_imm_u(answer, 32);
            let error = fx.b.ins().ireduce(types::I32, error);
            put(fx, out, count);
            fx.b.ins().return_(&[error]);
        }),
        "fd_read" => (&[I32; 4], |fx| {
            let (out, none) = (fx.stack[3], fx.b.ins().iconst(types::I32, 0));
            put(fx, out, none);
            answer(fx, errno::SUCCESS);
        }),
        "fd_seek" if module == "wasi_snapshot_preview1" => (&[I32, I64, I32, I32], |fx| answer(fx, errno::SPIPE)),
        "fd_close" => (&[I32], |fx| answer(fx, errno::SUCCESS)),
        "fd_fdstat_get" => (&[I32, I32], |fx| {
            let (fd, at) = (fx.stack[0], fx.stack[1]);
            // A character device without flags or rights, for the three standard streams.
            let other = fx.b.ins().ushr_imm_u(fd, 2);
            let (bad, good) = (fx.b.create_block(), fx.b.create_block());
            fx.b.ins().brif(other, bad, &[], good, &[]);
            fx.b.switch_to_block(good);
            let n = fx.b.ins().iconst(types::I32, 24);
            let p = fx.range(0, at, n);
            let (zero, wide) = (fx.b.ins().iconst(types::I32, 0), fx.b.ins().iconst(types::I64, 24));
            fx.call_c("memset", types::I32, [p, zero, wide]);
            let kind = fx.b.ins().iconst(types::I32, 2);
            fx.b.ins().istore8(little(), kind, p, 0);
            answer(fx, errno::SUCCESS);
            fx.b.switch_to_block(bad);
            answer(fx, errno::BADF);
        }),
        "fd_fdstat_set_flags" => (&[I32, I32], |fx| answer(fx, errno::SUCCESS)),
        "fd_prestat_get" => (&[I32, I32], |fx| answer(fx, errno::BADF)),
        "fd_prestat_dir_name" => (&[I32; 3], |fx| answer(fx, errno::BADF)),
        "environ_sizes_get" | "args_sizes_get" => (&[I32, I32], |fx| {
            let (a, b, none) = (fx.stack[0], fx.stack[1], fx.b.ins().iconst(types::I32, 0));
            put(fx, a, none);
            put(fx, b, none);
            answer(fx, errno::SUCCESS);
        }),
        "environ_get" | "args_get" => (&[I32, I32], |fx| answer(fx, errno::SUCCESS)),
        "clock_time_get" => (&[I32, I64, I32], |fx| {
            let (id, out) = (fx.stack[0], fx.stack[2]);
            let now = call_host(fx, &CLOCK, &[id])[0];
            put(fx, out, now);
            answer(fx, errno::SUCCESS);
        }),
        "clock_res_get" => (&[I32, I32], |fx| {
            let (out, one) = (fx.stack[1], fx.b.ins().iconst(types::I64, 1));
            put(fx, out, one);
            answer(fx, errno::SUCCESS);
        }),
        "random_get" => (&[I32, I32], |fx| {
            let (at, n) = (fx.stack[0], fx.stack[1]);
            let p = fx.range(0, at, n);
            let (n, zero) = (fx.wide(n), fx.b.ins().iconst(types::I32, 0));
            // Whatever was there is overwritten; then the host fills in the bytes.
            fx.call_c("memset", types::I32, [p, zero, n]);
            call_host(fx, &RANDOM, &[p, n]);
            answer(fx, errno::SUCCESS);
        }),
        "sched_yield" => (&[], |fx| answer(fx, errno::SUCCESS)),
        _ => return None,
    };
    let results: &[ValType] = if name == "proc_exit" { &[] } else { &[I32] };
    (ty.params() == params && ty.results() == results).then_some(shim)
}

/// Write a number to memory 0.
fn put(fx: &mut Fx<'_, '_, '_, '_>, at: Value, v: Value) {
    let bytes = i64::from(ty_of(fx, v).bytes());
    let n = fx.b.ins().iconst(types::I32, bytes);
    let p = fx.range(0, at, n);
    fx.b.ins().store(little(), v, p, 0);
}

fn ty_of(fx: &Fx<'_, '_, '_, '_>, v: Value) -> Type {
    fx.b.func.dfg.value_type(v)
}

fn answer(fx: &mut Fx<'_, '_, '_, '_>, errno: i64) {
    let v = fx.b.ins().iconst(types::I32, errno);
    fx.b.ins().return_(&[v]);
}
