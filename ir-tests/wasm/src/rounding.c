/* Numbers rounded by large constants, as libraries do it, in doubles or (SINGLE) in singles: the sum goes through functions and, without optimisation, through memory.
 *
 * A sum with such a number that is only a sum is one.
 */
#include "program.h"

#ifdef SINGLE
typedef float real;
typedef unsigned int word;
#define LARGE 0x1.8p23f
#define LONG 0x1.8p13f
#define MANTISSA 23
#define BIAS 127
#define ROUNDS 0x1p23f
#else
typedef double real;
typedef unsigned long long word;
#define LARGE 0x1.8p52
#define LONG 0x1.8p41
#define MANTISSA 52
#define BIAS 1023
#define ROUNDS 0x1p52
#endif

static word bits(real x) {
    union {
        real f;
        word i;
    } both = {x};
    return both.i;
}

static real number(word i) {
    union {
        word i;
        real f;
    } both = {i};
    return both.f;
}

/* What C libraries have for machines with longer registers. */
static real evaluated(real x) {
    real y = x;
    return y;
}

/* 2^x. */
static real power(real x) {
    real rounded = evaluated(x + LARGE);
    word k = bits(rounded);
    rounded -= LARGE;
    real r = (x - rounded) * (real)0.69314718055994531, sum = 1;
    for (int n = 14; n > 0; n--)
        sum = 1 + r * sum / n;
    return sum * number((k + BIAS) << MANTISSA);
}

static real nearest(real x) {
    real y;
    if (x < 0)
        y = evaluated(evaluated(x - ROUNDS) + ROUNDS);
    else
        y = evaluated(evaluated(x + ROUNDS) - ROUNDS);
    return y;
}

/* The sum of 2^x, and of x times the number that is nearest. */
EXPORT(rounded)
real rounded(int n, const real *x) {
    real sum = 0;
    for (int i = 0; i < n; i++)
        sum += power(x[i]) + x[i] * nearest(x[i]);
    return sum;
}

/* x + c, and x times what is left of that without c. */
EXPORT(added)
real added(real x) {
    real sum = x + LONG;
    real left = sum - LONG;
    return sum + x * left;
}
