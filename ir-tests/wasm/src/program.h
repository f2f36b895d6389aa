/* What the programs need of their surroundings.
 *
 * For wasm32, EXPORT makes a function of the module known under its name, and the mathematical functions are imports of
 * the module `env`, as an embedder offers them. LINKED_MATH leaves them to the C library, whose code is then part of
 * the module. Square roots and absolute values are instructions. Any other compiler sees ordinary C.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <math.h>
#include <stddef.h>

#ifdef __wasm__
#define EXPORT(name) __attribute__((export_name(#name)))
#else
#define EXPORT(name)
#endif

#if defined(__wasm__) && !defined(LINKED_MATH)
#define IMPORT(name) __attribute__((import_module("env"), import_name(#name))) imported_##name
double IMPORT(exp)(double);
double IMPORT(log)(double);
double IMPORT(sin)(double);
double IMPORT(cos)(double);
double IMPORT(tanh)(double);
double IMPORT(lgamma)(double);
float IMPORT(sinf)(float);
float IMPORT(cosf)(float);
#define exp imported_exp
#define log imported_log
#define sin imported_sin
#define cos imported_cos
#define tanh imported_tanh
#define lgamma imported_lgamma
#define sinf imported_sinf
#define cosf imported_cosf
#endif

#define PI 3.14159265358979323846

/* A linear congruential generator (Numerical Recipes); the upper 24 bits as a fraction in [0, 1), exactly. */
static inline double uniform(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) * 0x1p-24;
}

#endif
