/* What the adjoints need: the functions of their program, which the module does not export, and a way to export their
 * own.
 *
 * The adjoint of f(arguments) is f_adjoint(arguments, shadows, seed): one pointer for every float and every array of
 * floats among the arguments, in order, and the cotangent of the result, if there is one. What comes out is added to the
 * shadows. Where f overwrites an array, the shadow of that array holds the cotangent of what it leaves there, and is
 * replaced by that of what was there before.
 *
 * The rules, for a careful programmer in C: arithmetic and layout of data are the program's; what costs a few operations
 * is computed again, everything else is stored; nothing is made faster that could be made faster in the program as well
 * (no tables instead of its cosines, no pair of bodies at once where it has one after the other). What follows from what
 * the program computes may be used: that points do not depend on each other, that a transform is its own transpose.
 */
#ifndef ADJOINT_H
#define ADJOINT_H

#include "../program.h"

#undef EXPORT
#define EXPORT(name)

#ifdef __wasm__
#define ADJOINT(name) __attribute__((export_name(#name)))
#else
#define ADJOINT(name)
#endif

#endif
