/* Mathematics of one's own, as programs bring it that want it fast: floats are taken apart and put together as integers.
 *
 * Arguments are rounded by adding and subtracting a large number, exponents are replaced, and first guesses are made
 * by arithmetic on bits. None of the functions has the name of one of C's.
 */
#include "program.h"
#include "words.h"

/* 2^k (1 + r + ...): k is rounded, and becomes an exponent. */
static double power_of_e(double x) {
    double rounded = x * 1.4426950408889634 + 0x1.8p52;
    uint64_t k = bits(rounded);
    rounded -= 0x1.8p52;
    double r = x - rounded * 0x1.62e42fefa0000p-1 - rounded * 0x1.cf79abc9e3b3ap-40;
    double sum = 1;
    for (int n = 14; n > 0; n--)
        sum = 1 + r * sum / n;
    return sum * number((k + 1023) << 52);
}

/* x = m 2^k, with m near one. */
static double logarithm(double x) {
    uint64_t from = bits(x) - bits(0.70710678118654752);
    int k = (int)((int64_t)from >> 52);
    double m = number(bits(x) - (from & 0xfffULL << 52));
    double s = (m - 1) / (m + 1), z = s * s, sum = 0;
    for (int n = 23; n > 0; n -= 2)
        sum = sum * z + 2.0 / n;
    return s * sum + k * 0.69314718055994531;
}

/* The fraction of C's frexp, and the exponent. */
static double take_apart(double x, int *exponent) {
    *exponent = (int)(bits(x) >> 52 & 0x7ff) - 1022;
    return number((bits(x) & 0x800fffffffffffffULL) | 0x3feULL << 52);
}

/* x 2^k, with the exponent in its place. */
static double put_together(double x, int k) {
    uint64_t exponent = bits(x) >> 52 & 0x7ff;
    return number((bits(x) & ~(0x7ffULL << 52)) | (exponent + (uint64_t)k) << 52);
}

/* The argument is reduced to a quarter turn. */
static double sine(double x) {
    double turns = x * 0.63661977236758134 + 0x1.8p52;
    int quarter = (int)bits(turns) & 3;
    turns -= 0x1.8p52;
    double r = x - turns * 0x1.921fb54400000p0 - turns * 0x1.0b4611a626331p-34;
    double z = r * r, s = 1, c = 1;
    for (int n = 18; n > 1; n -= 2) {
        s = 1 - z / (n * (n + 1)) * s;
        c = 1 - z / (n * (n - 1)) * c;
    }
    double found = quarter & 1 ? c : r * s;
    return quarter & 2 ? -found : found;
}

/* A guess from a third of the bits, then Newton's steps, of which each doubles the digits. */
static double cube_root(double x) {
    double y = number(bits(x) / 3 + 0x2a9f7893ULL * 0x100000000ULL);
    for (int n = 0; n < 5; n++)
        y -= (y * y * y - x) / (3 * y * y);
    return y;
}

/* The same from half of them, taken off a constant. */
static double reciprocal_root(double x) {
    double y = number(0x5fe6eb50c7b537a9ULL - (bits(x) >> 1));
    for (int n = 0; n < 5; n++)
        y *= 1.5 - 0.5 * x * y * y;
    return y;
}

/* Of each number: its exponential, logarithm, sine, cube root and reciprocal root, and what it is made of. */
EXPORT(own_functions)
double own_functions(int n, const double *x) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        int exponent;
        double fraction = take_apart(x[i], &exponent);
        double near = x[i] * x[i] + 0.5;
        sum += power_of_e(x[i]) * logarithm(near) + sine(3 * x[i]) * cube_root(near);
        sum += fraction * put_together(x[i], i - 1) + exponent * reciprocal_root(near);
    }
    return sum;
}
