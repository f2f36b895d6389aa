//! OpenMP imports: which functions of LLVM's runtime an import is ([`crate::translate`] has what
//! they do).
//!
//! **Question.** A module calls `__kmpc_fork_call` and its like. Which parts of OpenMP are these?
//!
//! **Answer.** [`part`] goes by the name and the type. What has a name of OpenMP's and is not
//! listed, or has another type, is refused: to call it is a trap.
//!
//! **Cost.** A match on the name for each import.

use wasmparser::{FuncType, ValType};

use crate::forked::{MOST_THREADS, OpenMp};

/// The part of OpenMP that a function of this name and type is; all others of such a name are
/// refused.
pub(crate) fn part(name: &str, ty: &FuncType) -> Option<OpenMp> {
    if !["__kmpc_", "omp_", "GOMP_"].iter().any(|p| name.starts_with(p)) {
        return None;
    }
    let (found, params, returns) = match name {
        "__kmpc_fork_call" => (OpenMp::Region, 4, 0),
        "__kmpc_serialized_parallel" | "__kmpc_end_serialized_parallel" => (OpenMp::Serialized, 2, 0),
        "__kmpc_push_num_threads" => (OpenMp::SetThreads { param: 2, next: true }, 3, 0),
        "omp_set_num_threads" => (OpenMp::SetThreads { param: 0, next: false }, 1, 0),
        "__kmpc_global_thread_num" => (OpenMp::ThreadNum, 1, 1),
        "omp_get_thread_num" => (OpenMp::ThreadNum, 0, 1),
        "omp_get_num_threads" => (OpenMp::Threads, 0, 1),
        "omp_get_max_threads" | "omp_get_num_procs" => (OpenMp::MostThreads, 0, 1),
        "omp_in_parallel" => (OpenMp::InParallel, 0, 1),
        "__kmpc_for_static_init_4" => (OpenMp::StaticInit { wide: false, signed: true }, 9, 0),
        "__kmpc_for_static_init_4u" => (OpenMp::StaticInit { wide: false, signed: false }, 9, 0),
        "__kmpc_for_static_init_8" => (OpenMp::StaticInit { wide: true, signed: true }, 9, 0),
        "__kmpc_for_static_init_8u" => (OpenMp::StaticInit { wide: true, signed: false }, 9, 0),
        "__kmpc_for_static_fini" | "__kmpc_end_master" | "__kmpc_end_masked" => (OpenMp::Nothing, 2, 0),
        "omp_set_dynamic" | "omp_set_nested" | "omp_set_max_active_levels" => (OpenMp::Nothing, 1, 0),
        "omp_get_dynamic" | "omp_get_nested" | "omp_get_cancellation" | "omp_get_num_devices" => {
            (OpenMp::Constant(0), 0, 1)
        }
        "omp_get_max_active_levels" | "omp_is_initial_device" => (OpenMp::Constant(1), 0, 1),
        "omp_get_thread_limit" => (OpenMp::Constant(MOST_THREADS), 0, 1),
        "omp_get_wtime" => (OpenMp::Time, 0, 1),
        "omp_get_wtick" => (OpenMp::Tick, 0, 1),
        "__kmpc_reduce_nowait" => (OpenMp::Reduce, 7, 1),
        "__kmpc_end_reduce_nowait" => (OpenMp::Nothing, 3, 0),
        "__kmpc_master" => (OpenMp::IsFirst, 2, 1),
        _ => (OpenMp::Refused, 0, 0),
    };
    let mut words = vec![ValType::I32; params];
    if let OpenMp::StaticInit { wide: true, .. } = found {
        words[7..].fill(ValType::I64);
    }
    let of = if matches!(found, OpenMp::Time | OpenMp::Tick) { ValType::F64 } else { ValType::I32 };
    let fits = ty.params() == words && ty.results() == vec![of; returns];
    Some(if fits { found } else { OpenMp::Refused })
}
