//! WASI preview 1: what a C library calls when a program starts, prints, asks the time or exits.
//!
//! **Question.** Which of the system's functions does a computation need, and what do they write?
//!
//! **Answer.** There are no files, directories, sockets, arguments or environment variables.
//! Standard output and error go where the instance sends them ([`crate::Output`]), standard input
//! is at its end. What needs more than that is there, since libraries link it for their logs, and
//! answers with the error that a sandbox answers with to which nothing was given ([`REFUSED`]).
//! What a function writes to memory it writes by CLIF instructions, so the pass sees floats being
//! overwritten; the host only computes the numbers.
//!
//! **Errors.** A function that is not here, has another type, or has pointers in a module without
//! memory, has no shim.
//!
//! **Cost.** A call of the host for output, time, random numbers and an exit; otherwise a few
//! instructions.

use brolga::cranelift_codegen::ir::condcodes::IntCC;
use brolga::cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use wasmparser::{FuncType, ValType};

use crate::error::trap;
use crate::function::env::HostFunc;
use crate::function::func::{Fx, call_host};
use crate::function::ops::little;
use crate::host;
use crate::provided::Shim;

/// Error numbers of WASI.
mod errno {
    pub(super) const SUCCESS: i64 = 0;
    pub(super) const BADF: i64 = 8;
    pub(super) const NOTSUP: i64 = 58;
    pub(super) const SPIPE: i64 = 70;
}

static WRITE: HostFunc = HostFunc {
    symbol: "host.fd_write",
    params: &[types::I32, types::I32, types::I32],
    result: Some(types::I64),
    repeatable: false,
    address: || host::fd_write as *const () as usize,
};
static EXIT: HostFunc = HostFunc {
    symbol: "host.proc_exit",
    params: &[types::I32],
    result: None,
    repeatable: false,
    address: || host::proc_exit as *const () as usize,
};
pub(super) static CLOCK: HostFunc = HostFunc {
    symbol: "host.clock_time_get",
    params: &[types::I32],
    result: Some(types::I64),
    repeatable: false,
    address: || host::clock as *const () as usize,
};
static RANDOM: HostFunc = HostFunc {
    symbol: "host.random_get",
    params: &[types::I64, types::I64],
    result: None,
    repeatable: false,
    address: || host::random as *const () as usize,
};

/// Functions without pointers, among those that do something.
const WITHOUT_MEMORY: [&str; 5] = ["proc_exit", "proc_raise", "sched_yield", "fd_close", "fd_fdstat_set_flags"];

const I32: ValType = ValType::I32;
const I64: ValType = ValType::I64;

/// Functions that only answer, and with which error: there is no file but the three standard
/// streams, which cannot be sought or named. They read and write no memory, as functions of WASI
/// that fail do not.
const REFUSED: [(&str, &[ValType], i64); 27] = [
    ("fd_advise", &[I32, I64, I64, I32], errno::SPIPE),
    ("fd_allocate", &[I32, I64, I64], errno::NOTSUP),
    ("fd_datasync", &[I32], errno::NOTSUP),
    ("fd_fdstat_set_rights", &[I32, I64, I64], errno::BADF),
    ("fd_filestat_set_size", &[I32, I64], errno::BADF),
    ("fd_filestat_set_times", &[I32, I64, I64, I32], errno::BADF),
    ("fd_pread", &[I32, I32, I32, I64, I32], errno::SPIPE),
    ("fd_pwrite", &[I32, I32, I32, I64, I32], errno::SPIPE),
    ("fd_readdir", &[I32, I32, I32, I64, I32], errno::BADF),
    ("fd_renumber", &[I32, I32], errno::BADF),
    ("fd_sync", &[I32], errno::NOTSUP),
    ("fd_tell", &[I32, I32], errno::SPIPE),
    ("path_create_directory", &[I32; 3], errno::BADF),
    ("path_filestat_get", &[I32; 5], errno::BADF),
    ("path_filestat_set_times", &[I32, I32, I32, I32, I64, I64, I32], errno::BADF),
    ("path_link", &[I32; 7], errno::BADF),
    ("path_open", &[I32, I32, I32, I32, I32, I64, I64, I32, I32], errno::BADF),
    ("path_readlink", &[I32; 6], errno::BADF),
    ("path_remove_directory", &[I32; 3], errno::BADF),
    ("path_rename", &[I32; 6], errno::BADF),
    ("path_symlink", &[I32; 5], errno::BADF),
    ("path_unlink_file", &[I32; 3], errno::BADF),
    // No program waits for a clock, and nothing else can come.
    ("poll_oneoff", &[I32; 4], errno::NOTSUP),
    ("sock_accept", &[I32; 3], errno::BADF),
    ("sock_recv", &[I32; 6], errno::BADF),
    ("sock_send", &[I32; 5], errno::BADF),
    ("sock_shutdown", &[I32; 2], errno::BADF),
];

/// The module that its functions are imported from.
pub(super) const MODULE: &str = "wasi_snapshot_preview1";

/// The shim for a function of WASI, if there is one of that type. What has pointers among its
/// parameters makes no sense without a memory that they point into, unless it only answers.
pub(super) fn shim(module: &str, name: &str, ty: &FuncType, memory: bool) -> Option<Shim> {
    if module != MODULE && module != "wasi_unstable" {
        return None;
    }
    if let Some((_, params, error)) = REFUSED.iter().find(|(n, ..)| *n == name) {
        let right = ty.params() == *params && ty.results() == [I32];
        return right.then_some(match *error {
            errno::BADF => |fx| answer(fx, errno::BADF),
            errno::SPIPE => |fx| answer(fx, errno::SPIPE),
            _ => |fx| answer(fx, errno::NOTSUP),
        });
    }
    if !memory && !WITHOUT_MEMORY.contains(&name) {
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
        // Emscripten's, whose offset comes in two halves.
        "fd_seek" if ty.params() == [I32; 5] => (&[I32; 5], |fx| answer(fx, errno::SPIPE)),
        "fd_seek" if module == MODULE => (&[I32, I64, I32, I32], |fx| answer(fx, errno::SPIPE)),
        "fd_close" => (&[I32], |fx| answer(fx, errno::SUCCESS)),
        "fd_fdstat_get" => (&[I32, I32], |fx| stream(fx, 24, 0)),
        "fd_filestat_get" => (&[I32, I32], |fx| stream(fx, 64, 16)),
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
        "proc_raise" => (&[I32], |fx| {
            fx.b.ins().trap(trap::UNREACHABLE);
        }),
        "sched_yield" => (&[], |fx| answer(fx, errno::SUCCESS)),
        _ => return None,
    };
    let results: &[ValType] = if name == "proc_exit" { &[] } else { &[I32] };
    (ty.params() == params && ty.results() == results).then_some(shim)
}

/// Say what one of the three standard streams is, in so many bytes: a character device without
/// flags or rights. Its kind is at an offset, all else is zero.
fn stream(fx: &mut Fx<'_, '_, '_, '_>, bytes: i64, kind_at: i32) {
    let (fd, at) = (fx.stack[0], fx.stack[1]);
    let third = fx.b.ins().iconst(types::I32, 2);
    let other = fx.b.ins().icmp(IntCC::UnsignedGreaterThan, fd, third);
    let (bad, good) = (fx.b.create_block(), fx.b.create_block());
    fx.b.ins().brif(other, bad, &[], good, &[]);
    fx.b.switch_to_block(good);
    let n = fx.b.ins().iconst(types::I32, bytes);
    let p = fx.range(0, at, n);
    let (zero, wide) = (fx.b.ins().iconst(types::I32, 0), fx.b.ins().iconst(types::I64, bytes));
    fx.call_c("memset", types::I32, [p, zero, wide]);
    let kind = fx.b.ins().iconst(types::I32, 2);
    fx.b.ins().istore8(little(), kind, p, kind_at);
    answer(fx, errno::SUCCESS);
    fx.b.switch_to_block(bad);
    answer(fx, errno::BADF);
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
