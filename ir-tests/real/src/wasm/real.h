/* One source, two readers: clang compiles these programs with `double` for wasm32 (the CLIF under test), gcc compiles them
 * with `__float128` for oracle.c, whose central differences are then good to more than twenty digits. */
#ifndef REAL_H
#define REAL_H
#ifndef REAL
#define REAL double
#define R(name) name
#define SINGLE float
#define S(name) __builtin_##name##f
#endif
typedef REAL real;
typedef SINGLE single;
real R(exp)(real);
real R(log)(real);
real R(sin)(real);
real R(cos)(real);
real R(sqrt)(real);
real R(fabs)(real);
#define EXPORT __attribute__((visibility("default"), used))
#define NOINLINE static __attribute__((noinline))
#endif
