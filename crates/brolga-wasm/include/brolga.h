/* Brolga for C: loops whose gradient takes little memory (docs/LONG-LOOPS.md), and tasks that run at
 * the same time (docs/PARALLEL.md).
 *
 * Define BROLGA for a WebAssembly module that is going to be differentiated: then these functions are
 * imports, which Brolga knows. Without it they are loops and calls as they are written here.
 *
 * A step writes to the state, which has so many bytes, and to what it has allocated itself. What it
 * reads besides stays as it is until the gradient is there.
 *
 * Of two tasks of a fork, neither writes what the other one reads or writes.
 */
#ifndef BROLGA_H
#define BROLGA_H

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*brolga_step)(void *state, const void *params, int i);
typedef int (*brolga_step_while)(void *state, const void *params, int i);

typedef void (*brolga_task)(void *arg);
typedef void (*brolga_body)(void *ctx, int lo, int hi);
typedef double (*brolga_body_f64)(void *ctx, int lo, int hi);

typedef struct {
    brolga_task run;
    void *arg;
} brolga_entry;

#if defined(BROLGA) && defined(__wasm__)

#define BROLGA_IMPORT(name) __attribute__((import_module("env"), import_name(name)))

/* step(state, params, i) for i from 0 to n - 1. */
BROLGA_IMPORT("brolga_time_loop")
void brolga_time_loop(brolga_step step, void *state, int bytes, const void *params, int n);

/* The same as long as a step does not return 0, at most n times. Returns how many steps ran. */
BROLGA_IMPORT("brolga_while_loop")
int brolga_while_loop(brolga_step_while step, void *state, int bytes, const void *params, int n);

/* step(state, params, i), where undo(state, params, i) takes the state back to what it was. */
BROLGA_IMPORT("brolga_inverse_pair")
void brolga_inverse_pair(brolga_step step, brolga_step undo, void *state, int bytes, const void *params, int i);

/* f(a) and g(b). */
BROLGA_IMPORT("brolga_par_join")
void brolga_par_join(brolga_task f, void *a, brolga_task g, void *b);

/* What n entries say. A negative n is a trap. */
BROLGA_IMPORT("brolga_par_n")
void brolga_par_n(const brolga_entry *entries, int n);

/* body(ctx, lo, hi), in parts of the range with at least so many iterations. A range that ends before it
 * begins is a trap. */
BROLGA_IMPORT("brolga_par_for")
void brolga_par_for(brolga_body body, void *ctx, int lo, int hi, int grain);

/* The sum of what body(ctx, lo, hi) returns for such parts. */
BROLGA_IMPORT("brolga_par_reduce_f64")
double brolga_par_reduce_f64(brolga_body_f64 body, void *ctx, int lo, int hi, int grain);

#undef BROLGA_IMPORT

#else

static inline void brolga_time_loop(brolga_step step, void *state, int bytes, const void *params, int n) {
    (void)bytes;
    for (int i = 0; i < n; i++) step(state, params, i);
}

static inline int brolga_while_loop(brolga_step_while step, void *state, int bytes, const void *params, int n) {
    (void)bytes;
    for (int i = 0; i < n; i++) {
        if (!step(state, params, i)) return i + 1;
    }
    return n > 0 ? n : 0;
}

static inline void brolga_inverse_pair(brolga_step step, brolga_step undo, void *state, int bytes,
                                       const void *params, int i) {
    (void)undo, (void)bytes;
    step(state, params, i);
}

static inline void brolga_par_join(brolga_task f, void *a, brolga_task g, void *b) {
    f(a);
    g(b);
}

static inline void brolga_par_n(const brolga_entry *entries, int n) {
    if (n < 0) __builtin_trap();
    for (int i = 0; i < n; i++) entries[i].run(entries[i].arg);
}

static inline void brolga_par_for(brolga_body body, void *ctx, int lo, int hi, int grain) {
    (void)grain;
    if (lo > hi) __builtin_trap();
    if (lo < hi) body(ctx, lo, hi);
}

static inline double brolga_par_reduce_f64(brolga_body_f64 body, void *ctx, int lo, int hi, int grain) {
    (void)grain;
    if (lo > hi) __builtin_trap();
    return lo < hi ? body(ctx, lo, hi) : 0;
}

#endif

#ifdef __cplusplus
}
#endif

#endif
